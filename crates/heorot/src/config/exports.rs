//! The `[[export]]` sections of a metaserver's configuration: who may do what, from where.

use metaserver::{Access, Consistency, Export, Exports, NETWORKS_MAX, NOBODY, Network, Rules, Squash};
use toml::de::DeValue;

use super::{ConfigError, Parsed, Reader, boolean, integer, string};

pub(crate) const KEYS: [&str; 8] =
    ["path", "clients", "access", "squash", "anonymous_uid", "anonymous_gid", "secure", "consistency"];

const CLIENTS: &str = "networks and addresses, such as [\"10.0.0.0/8\", \"fd00::/8\", \"192.168.1.7\"], or \"*\" for \
                       everybody";

/// The exports of a file; `otherwise`, for everybody, when it has none.
pub(super) fn exports(sections: &[Reader<'_>], otherwise: Rules) -> Result<Exports, ConfigError> {
    if sections.is_empty() {
        return Ok(Exports::everybody(otherwise));
    }
    let mut exports = Vec::with_capacity(sections.len());
    let mut networks = 0;
    for section in sections {
        let export = export(section)?;
        networks += export.clients.len();
        if networks > NETWORKS_MAX {
            let why = format!("all exports together have more than {NETWORKS_MAX} networks");
            return Err(section.wrong("clients", why, "fewer and larger networks"));
        }
        exports.push(export);
    }
    Exports::new(exports).map_err(|(network, index)| {
        let why = format!("{network} is there twice, in this export or in one before it");
        sections[index].wrong(
            "clients",
            why,
            "a network that no other export has; a smaller one may be inside of it",
        )
    })
}

fn export(section: &Reader<'_>) -> Result<Export, ConfigError> {
    section.optional("path", "\"/\", or left out: the whole volume is exported", |value| {
        match string(value)?.as_str() {
            "/" => Ok(()),
            path => Err(format!(
                "{path:?} is a directory of the volume, and those cannot be exported by themselves"
            )),
        }
    })?;
    let id =
        |key| section.optional(key, "a number such as 65534", |v| Ok(integer(v, 0, u32::MAX.into())? as u32));
    let rules = Rules {
        access: section
            .optional("access", "\"rw\" or \"ro\"", |v| match string(v)?.as_str() {
                "rw" => Ok(Access::ReadWrite),
                "ro" => Ok(Access::ReadOnly),
                other => Err(format!("{other:?} is neither")),
            })?
            .unwrap_or(Rules::SAFE.access),
        squash: section
            .optional("squash", "\"none\", \"root\" or \"all\"", |v| match string(v)?.as_str() {
                "none" => Ok(Squash::None),
                "root" => Ok(Squash::Root),
                "all" => Ok(Squash::All),
                other => Err(format!("{other:?} is none of them")),
            })?
            .unwrap_or(Rules::SAFE.squash),
        anonymous_uid: id("anonymous_uid")?.unwrap_or(NOBODY),
        anonymous_gid: id("anonymous_gid")?.unwrap_or(NOBODY),
        secure: section.optional("secure", "true or false", boolean)?.unwrap_or(Rules::SAFE.secure),
        consistency: section
            .optional("consistency", "\"strict\" or \"lazy\"", |v| match string(v)?.as_str() {
                "strict" => Ok(Consistency::Strict),
                "lazy" => Ok(Consistency::Lazy),
                other => Err(format!("{other:?} is neither")),
            })?
            .unwrap_or(Rules::SAFE.consistency),
    };
    Ok(Export { clients: section.required("clients", CLIENTS, clients)?, rules })
}

/// One network or a list of them.
fn clients(value: &DeValue<'_>) -> Parsed<Vec<Network>> {
    let Some(array) = value.as_array() else { return client(value) };
    let mut networks = Vec::new();
    for value in array.iter() {
        networks.extend(client(value.get_ref())?);
    }
    if networks.is_empty() { Err("it is empty".into()) } else { Ok(networks) }
}

fn client(value: &DeValue<'_>) -> Parsed<Vec<Network>> {
    match string(value)?.as_str() {
        "*" => Ok(vec![Network::ALL_V4, Network::ALL_V6]),
        text => Ok(vec![text.parse()?]),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::mds::MdsConfig;
    use super::*;

    const TOP: &str = "data_dir = '/d'\nsecret_file = '/s'\n";

    fn parse(text: &str) -> Result<Exports, String> {
        let text = format!("{TOP}{text}");
        MdsConfig::parse(Path::new("mds.toml"), &text).map(|c| c.exports).map_err(|e| e.to_string())
    }

    fn rules(exports: &Exports, address: &str) -> Option<Rules> {
        exports.find(address.parse().unwrap()).map(|export| export.rules)
    }

    #[test]
    fn what_an_export_does_not_say_is_safe() {
        let all = parse(
            "[[export]]\nclients = '10.0.0.0/8'\n\
             [[export]]\npath = '/'\nclients = ['192.168.1.7', 'fd00::/8']\naccess = 'ro'\nsquash = 'all'\n\
             anonymous_uid = 99\nanonymous_gid = 98\nsecure = false\nconsistency = 'lazy'\n",
        )
        .unwrap();
        assert_eq!(rules(&all, "10.1.1.1"), Some(Rules::SAFE));
        let second = Rules {
            access: Access::ReadOnly,
            squash: Squash::All,
            anonymous_uid: 99,
            anonymous_gid: 98,
            secure: false,
            consistency: Consistency::Lazy,
        };
        assert_eq!((rules(&all, "192.168.1.7"), rules(&all, "fd00::1")), (Some(second), Some(second)));
        assert_eq!(rules(&all, "127.0.0.1"), None, "nobody else");
        let everybody = parse("[[export]]\nclients = '*'\nsquash = 'none'").unwrap();
        assert_eq!(rules(&everybody, "::1"), Some(Rules { squash: Squash::None, ..Rules::SAFE }));
        assert_eq!(rules(&everybody, "9.9.9.9"), rules(&everybody, "::1"));
    }

    #[test]
    fn mistakes_are_answered_with_line_key_and_remedy() {
        let cases = [
            (
                "[[export]]\nclients = '*'\nsqash = 'all'",
                "5: there is no key `sqash`; did you mean `squash`?",
            ),
            (
                "[[export]]\nclients = '*'\nlease_seconds = 9",
                "5: there is no key `lease_seconds`; it stands at the top of the file, before the first [[export]]",
            ),
            (
                "[[export]]\nsquash = 'all'",
                "3: `clients` is missing in this section; it must be networks and addresses, such as",
            ),
            (
                "[[export]]\nclients = '*'\n[[export]]\nclients = ['10.0.0.1', 'node7']",
                "6: `clients` is not right: \"node7\" is neither an address nor a network; it must be networks",
            ),
            (
                "[[export]]\nclients = '10.1.0.0/8'",
                "4: `clients` is not right: \"10.1.0.0/8\" has bits beyond its prefix; that network is 10.0.0.0/8; it",
            ),
            (
                "[[export]]\nclients = '10.0.0.0/8'\n\n[[export]]\nclients = ['10.0.0.0/8']",
                "7: `clients` is not right: 10.0.0.0/8 is there twice, in this export or in one before it; it must be a",
            ),
            ("[[export]]\nclients = []", "4: `clients` is not right: it is empty; it must be networks"),
            (
                "[[export]]\nclients = '*'\naccess = 'readonly'",
                "5: `access` is not right: \"readonly\" is neither; it must be \"rw\" or \"ro\"",
            ),
            (
                "[[export]]\nclients = '*'\nconsistency = 'eventual'",
                "5: `consistency` is not right: \"eventual\" is neither; it must be \"strict\" or \"lazy\"",
            ),
            (
                "[[export]]\nclients = '*'\nsquash = false",
                "5: `squash` is not right: it is of type boolean; it must be \"none\", \"root\" or \"all\"",
            ),
            (
                "[[export]]\nclients = '*'\nanonymous_uid = -2",
                "5: `anonymous_uid` is not right: -2 is not from 0 to 4294967295; it must be a number such as 65534",
            ),
            (
                "[[export]]\nclients = '*'\npath = '/scratch'",
                "5: `path` is not right: \"/scratch\" is a directory of the volume, and those cannot be exported by \
                 themselves; it must be \"/\"",
            ),
            (
                "[export]\nclients = '*'",
                "3: `export` is not right: it is not a list of sections; it must be written [[export]], in two brackets",
            ),
            ("[[exports]]\nclients = '*'", "3: there is no key `exports`; did you mean `export`?"),
            (
                "squash = 'none'",
                "3: there is no key `squash`; it stands in a section, after a line [[export]]",
            ),
            ("[exprt]\nclients = '*'", "3: there is no key `exprt`; did you mean `export`?"),
        ];
        for (text, error) in cases {
            let found = parse(text).unwrap_err();
            assert!(found.starts_with(&format!("mds.toml:{error}")), "{text}\n{found}");
        }
        let many: Vec<_> = (0..=NETWORKS_MAX).map(|n| format!("'10.0.{}.{}'", n / 256, n % 256)).collect();
        let error = parse(&format!("[[export]]\nclients = [{}]", many.join(","))).unwrap_err();
        assert!(
            error.starts_with("mds.toml:4: `clients` is not right: all exports together have more"),
            "{error}"
        );
    }
}
