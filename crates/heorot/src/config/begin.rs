//! First exports and settings of a new cluster: `mds.begin.toml` beside the first metaserver's `mds.toml`.
//! The first start reads it into the cluster map and removes it.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use cluster::{Begin, Export, Exports, Rules, SETTINGS};
use host::Network;
use toml::de::DeValue;

use super::{ConfigError, Document, Parsed, string};

const EXPORTS: &str =
    "lists of a network and rules, such as [\"10.0.0.0/8 rw,squash=none\"]; \"*\" is every network";
const SERVICE: &str = "addresses that move between metaservers, such as [\"10.0.0.100\"]";

/// Path of the file beside the configuration file `config`.
pub(crate) fn path(config: &Path) -> PathBuf {
    config.with_extension("begin.toml")
}

/// Parses the text of `file`. Without exports, `rules` apply to all networks; missing settings have their
/// defaults.
pub(crate) fn parse(file: &Path, text: &str, rules: Rules) -> Result<Begin, ConfigError> {
    let document = Document::parse(file, text)?;
    let keys: Vec<&str> =
        SETTINGS.iter().map(|setting| setting.key).chain(["exports", "service_addresses"]).collect();
    let r = document.top(&keys)?;
    let exports = r.optional("exports", EXPORTS, |value| {
        let exports: Vec<_> = strings(value)?.iter().map(|text| export(text)).collect::<Result<_, _>>()?;
        Ok(exports.concat())
    })?;
    let mut begin = Begin::exporting(&exports.unwrap_or_else(|| Exports::everybody(rules)));
    begin.service_addresses = r
        .optional("service_addresses", SERVICE, |value| {
            let address =
                |text: &String| text.parse::<IpAddr>().map_err(|_| format!("{text:?} is no address"));
            strings(value)?.iter().map(address).collect()
        })?
        .unwrap_or_default();
    for setting in SETTINGS {
        r.optional(setting.key, "a value as heorot set takes it, as a text", |value| {
            begin.set(setting.key, &string(value)?)
        })?;
    }
    Ok(begin)
}

/// Text of such a file.
pub(crate) fn text(exports: &[String], service_addresses: &[IpAddr]) -> Option<String> {
    let mut table = toml::Table::new();
    if !exports.is_empty() {
        table.insert("exports".into(), exports.to_vec().into());
    }
    if !service_addresses.is_empty() {
        let all: Vec<String> = service_addresses.iter().map(ToString::to_string).collect();
        table.insert("service_addresses".into(), all.into());
    }
    let lines = toml::to_string(&table).ok().filter(|_| !table.is_empty())?;
    Some(format!(
        "# Read once, when the cluster begins. heorot export, service-address and set change it later.\n{lines}"
    ))
}

fn strings(value: &DeValue<'_>) -> Parsed<Vec<String>> {
    let all = value.as_array().ok_or_else(|| format!("it is of type {}", value.type_str()))?;
    all.iter().map(|value| string(value.get_ref())).collect()
}

fn export(text: &str) -> Parsed<Vec<Export>> {
    let (networks, rules) = text.split_once(' ').unwrap_or((text, ""));
    let rules = Rules::SAFE.with(rules)?;
    let networks = match networks {
        "*" => vec![Network::ALL_V4, Network::ALL_V6],
        network => vec![network.parse()?],
    };
    Ok(networks.into_iter().map(|network| Export::of_volume(network, rules)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(text: &str) -> Result<Begin, String> {
        parse(Path::new("mds.begin.toml"), text, Rules::OPEN).map_err(|e| e.to_string())
    }

    #[test]
    fn what_init_writes_is_read_and_what_it_does_not_say_is_as_where_nothing_is_said() {
        assert_eq!(begin(""), Ok(Begin::for_everybody(Rules::OPEN)));
        assert_eq!(text(&[], &[]), None);
        let services = [[10, 0, 0, 100].into(), [10, 0, 0, 101].into()];
        let file = text(&["* squash=none".into()], &services).unwrap();
        let begun = begin(&(file + "lease = \"20s\"\n")).unwrap();
        let mut expected = Begin::for_everybody(Rules::SAFE.with("squash=none").unwrap());
        expected.service_addresses = services.to_vec();
        expected.set("lease", "20s").unwrap();
        assert_eq!(begun, expected);
    }

    #[test]
    fn mistakes_are_answered_with_line_key_and_remedy() {
        for (text, error) in [
            (
                "lease = 20",
                "mds.begin.toml:1: `lease` is not right: it is of type integer; it must be a value as",
            ),
            (
                "\nlease = '1s'",
                "mds.begin.toml:2: `lease` is not right: lease: 1s is not a time from 5s to 1h",
            ),
            ("leases = '20s'", "mds.begin.toml:1: there is no key `leases`; did you mean `lease`?"),
            (
                "exports = ['10.0.0.1/8']",
                "mds.begin.toml:1: `exports` is not right: \"10.0.0.1/8\" has bits beyond",
            ),
            (
                "exports = ['* squash']",
                "mds.begin.toml:1: `exports` is not right: \"squash\" is no rule of an export",
            ),
            (
                "service_addresses = ['ash']",
                "mds.begin.toml:1: `service_addresses` is not right: \"ash\" is no address",
            ),
        ] {
            let found = begin(text).unwrap_err();
            assert!(found.starts_with(error), "{found}");
        }
    }
}
