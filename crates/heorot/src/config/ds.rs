//! Configuration of a data server.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::de::DeValue;

use super::admin::{self, AdminConfig};
use super::{ConfigError, Document, LOG, Parsed, Reader, address, log, path, paths, size, string};
use command_line::logging;
use dataserver::{Checks, REFILL_RATE};

pub(crate) const KEYS: [&str; 16] = [
    "listen",
    "advertise",
    "service_address",
    "zone",
    "metaserver",
    "secret_file",
    "data_dir",
    "targets",
    "scrub_time",
    "scrub_rate",
    "refill_rate",
    "admin",
    "admin_group",
    "admin_token_file",
    "name",
    "log",
];

/// Default admin address of a data server: next to the metaserver's port, so that both can run on one
/// machine.
const ADMIN_DEFAULT: &str = "127.0.0.1:20491";

/// Settings of a data server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DsConfig {
    pub listen: SocketAddr,
    pub advertise: SocketAddr,
    /// Address for clients, which another data server holds while this one is silent.
    pub service_address: Option<IpAddr>,
    /// What one fault may take together with others, such as a rack.
    pub zone: Option<String>,
    /// Metaservers, each as host or address, and port.
    pub metaservers: Vec<String>,
    pub secret_file: PathBuf,
    pub data_dir: PathBuf,
    pub targets: Vec<PathBuf>,
    pub checks: Checks,
    /// Bytes per second that members of chains are refilled with.
    pub refill_rate: u64,
    pub admin: AdminConfig,
    pub name: Option<String>,
    pub log: String,
}

impl DsConfig {
    /// Parses the text of `file`.
    pub(crate) fn parse(file: &Path, text: &str) -> Result<Self, ConfigError> {
        let document = Document::parse(file, text)?;
        let r = document.top(&KEYS)?;
        let listen = r.required("listen", "an address such as \"10.0.0.5:2049\"", address)?;
        let reachable = "the address that clients reach this server at, such as \"10.0.0.5:2049\"";
        let advertise = r.optional("advertise", reachable, |v| {
            let advertise = address(v)?;
            if advertise.ip().is_unspecified() {
                return Err(format!("no machine can reach {advertise}"));
            }
            Ok(advertise)
        })?;
        let advertise = match advertise {
            None if listen.ip().is_unspecified() => r.required("advertise", reachable, address)?,
            advertise => advertise.unwrap_or(listen),
        };
        let service_address = r.optional("service_address", "an address such as \"10.0.0.105\"", |v| {
            let text = string(v)?;
            let address: IpAddr = text.parse().map_err(|_| format!("{text:?} is no address"))?;
            match address {
                _ if !can_move(address) => Err(format!("{address} cannot move between machines")),
                _ if address == advertise.ip() => Err(format!("{address} is this machine's own address")),
                _ if !listen.ip().is_unspecified() => Err(format!(
                    "this server listens on {listen} alone; set listen = \"0.0.0.0:{}\" and advertise = \"{advertise}\"",
                    listen.port()
                )),
                _ => Ok(address),
            }
        })?;
        Ok(Self {
            listen,
            advertise,
            service_address,
            zone: r.optional("zone", "a name of at most 64 bytes, such as \"rack-1\"", |v| {
                crate::node::name::parse(&string(v)?)
            })?,
            metaservers: r.required("metaserver", METASERVER, |v| match v.as_array() {
                Some(all) if all.is_empty() => Err("it is empty".into()),
                Some(all) => all.iter().map(|v| host_and_port(v.get_ref())).collect(),
                None => Ok(vec![host_and_port(v)?]),
            })?,
            secret_file: r.required(
                "secret_file",
                "a copy of the metaserver's, such as \"/etc/heorot/secret\"",
                path,
            )?,
            data_dir: r.required("data_dir", "a directory such as \"/var/lib/heorot/ds\"", path)?,
            targets: r.required(
                "targets",
                "directories, each once, such as [\"/data/sda\", \"/data/sdb\"]",
                paths,
            )?,
            checks: checks(&r)?,
            refill_rate: r
                .optional("refill_rate", "bytes in a second, such as \"256MiB\"", |v| match size(v)? {
                    0 => Err("copies would never come back".into()),
                    rate => Ok(rate),
                })?
                .unwrap_or(REFILL_RATE),
            admin: admin::read(&r, ADMIN_DEFAULT)?,
            name: r.optional("name", "a name of at most 64 bytes, such as \"ds5\"", |v| {
                crate::node::name::parse(&string(v)?)
            })?,
            log: r.optional("log", LOG, log)?.unwrap_or_else(|| logging::DEFAULT.into()),
        })
    }
}

/// Whether the address can be a service address, which moves between machines.
pub(crate) fn can_move(address: IpAddr) -> bool {
    !(address.is_loopback() || address.is_unspecified() || address.is_multicast())
}

/// Rate and time of scrubs.
fn checks(r: &Reader<'_>) -> Result<Checks, ConfigError> {
    let defaults = Checks::default();
    let scrub_time = r.optional("scrub_time", "a time such as \"14d\", or \"0s\" for no scrubs", |v| {
        let time = host::time::parse(&string(v)?)?;
        if time > SCRUB_TIME_MAX { Err("it is more than ten years".into()) } else { Ok(time) }
    })?;
    let scrub_rate =
        r.optional("scrub_rate", "bytes in a second, such as \"32MiB\"", |v| match size(v)? {
            0 => Err("nothing would be read".into()),
            rate => Ok(rate),
        })?;
    Ok(Checks {
        scrub_time: scrub_time.unwrap_or(defaults.scrub_time),
        scrub_rate: scrub_rate.unwrap_or(defaults.scrub_rate),
    })
}

/// Longest time from scrub to scrub: no disk is in use for longer.
const SCRUB_TIME_MAX: Duration = Duration::from_secs(10 * 365 * 86_400);

const METASERVER: &str = "an address such as \"10.0.0.1:2049\", or those of all metaservers: [\"10.0.0.1:2049\", \"10.0.0.2:2049\"]";

fn host_and_port(value: &DeValue<'_>) -> Parsed<String> {
    let text = string(value)?;
    let port = text
        .rsplit_once(':')
        .and_then(|(host, port)| port.parse::<u16>().ok().filter(|port| *port != 0 && !host.is_empty()));
    port.map(|_| text.clone()).ok_or_else(|| format!("{text:?} is no address with a port"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: &str = "secret_file = '/s'\ndata_dir = '/d'\n";

    fn parse(text: &str) -> Result<DsConfig, String> {
        DsConfig::parse(Path::new("ds.toml"), text).map_err(|e| e.to_string())
    }

    #[test]
    fn a_server_that_listens_everywhere_must_say_where_it_is_reached() {
        let text = format!("{REST}metaserver = 'mds:2049'\ntargets = ['/a']\n");
        let config = parse(&format!("{text}listen = '10.0.0.5:2049'")).unwrap();
        assert_eq!(config.advertise, config.listen);
        let error = parse(&format!("{text}listen = '0.0.0.0:2049'")).unwrap_err();
        assert!(
            error.starts_with("ds.toml: `advertise` is missing; it must be the address that clients"),
            "{error}"
        );
        let error = parse(&format!("{text}listen = '0.0.0.0:2049'\nadvertise = '0.0.0.0:2049'")).unwrap_err();
        assert!(
            error.starts_with("ds.toml:6: `advertise` is not right: no machine can reach 0.0.0.0:2049"),
            "{error}"
        );
    }

    #[test]
    fn mistakes_are_answered_with_line_key_and_remedy() {
        let cases = [
            (
                "targets = ['/a', '/b/../b', '/b/../b/']",
                "`targets` is not right: /b/../b and /b/../b/ are the same",
            ),
            ("targets = []", "`targets` is not right: it is empty; it must be directories, each once"),
            ("targets = '/a'", "`targets` is not right: it is of type string; it must be directories"),
            ("targets = [7]", "`targets` is not right: it is of type integer"),
            (
                "metaserver = '10.0.0.1:2o49'\ntargets = ['/a']",
                "`metaserver` is not right: \"10.0.0.1:2o49\" is no",
            ),
            (
                "service_address = '10.0.0.105'\ntargets = ['/a']",
                "`service_address` is not right: this server listens on 10.0.0.5:2049 alone; set listen = ",
            ),
            (
                "service_address = '10.0.0.5'\ntargets = ['/a']",
                "`service_address` is not right: 10.0.0.5 is this machine's own address",
            ),
            (
                "service_address = '127.0.0.9'\ntargets = ['/a']",
                "`service_address` is not right: 127.0.0.9 cannot move between machines",
            ),
            ("zone = 'rack 1'\ntargets = ['/a']", "`zone` is not right: \"rack 1\" has ' ' in it"),
            ("scrub_rate = 0\ntargets = ['/a']", "`scrub_rate` is not right: nothing would be read"),
            ("refill_rate = 0\ntargets = ['/a']", "`refill_rate` is not right: copies would never come back"),
            ("scrub_time = 'soon'\ntargets = ['/a']", "`scrub_time` is not right"),
            ("target = ['/a']", "there is no key `target`; did you mean `targets`?"),
        ];
        for (lines, error) in cases {
            let metaserver = if lines.starts_with("metaserver") { "" } else { "metaserver = 'mds:2049'\n" };
            let text = format!("{lines}\nlisten = '10.0.0.5:2049'\n{REST}{metaserver}");
            let found = parse(&text).unwrap_err();
            assert!(found.starts_with(&format!("ds.toml:1: {error}")), "{found}");
        }
    }

    #[test]
    fn the_example_is_right() {
        let text = include_str!("../../../../docs/examples/ds.toml");
        parse(text).unwrap();
        for key in KEYS {
            assert!(text.contains(&format!("{key} = ")), "the example has no {key}");
        }
    }
}
