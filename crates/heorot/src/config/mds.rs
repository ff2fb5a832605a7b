//! Configuration of a metaserver.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use cluster::Rules;

use super::admin::{self, AdminConfig};
use super::{ConfigError, Document, LOG, address, boolean, log, path, size, string};
use crate::cli::ADMIN_DEFAULT;
use command_line::logging;

pub(crate) const KEYS: [&str; 13] = [
    "listen",
    "data_dir",
    "admin",
    "admin_group",
    "admin_token_file",
    "secret_file",
    "reserve",
    "log",
    "metadata_memory",
    "name",
    "consensus",
    "join",
    "learner",
];
/// Keys of former versions that are cluster settings now, each with the command that sets it.
const MOVED: [(&str, &str); 9] = [
    ("export", "heorot export add / --network 10.0.0.0/8"),
    ("service_addresses", "heorot service-address add 10.0.0.100"),
    ("lease_seconds", "heorot set lease 30s"),
    ("stripe_unit", "heorot set stripe_unit 1MiB"),
    ("stripe_columns", "heorot set stripe_columns 4"),
    ("clean_interval_seconds", "heorot set clean_interval 1d"),
    ("owner_domain", "heorot set owner_domain example.org"),
    ("owner_names", "heorot set owner_names true"),
    ("read_leases", "heorot set read_leases false"),
];

/// Default reserve for removals on a full disk: about 200,000 removals in the log, and the store's own
/// growth.
pub(crate) const RESERVE_DEFAULT_BYTES: u64 = 64 << 20;
/// Minimum of `metadata_memory`: with less, the store would read its pages again and again even for few
/// files.
const MEMORY_BYTES_MIN: u64 = 16 << 20;
/// Configuration of a metaserver in a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupConfig {
    /// Name, for people.
    pub name: String,
    /// Address for the other metaservers.
    pub consensus: SocketAddr,
    /// Address of another metaserver to join at the first start.
    pub join: Option<SocketAddr>,
    /// Whether it is a learner: it serves without a vote.
    pub learner: bool,
}

/// Settings of a metaserver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MdsConfig {
    pub listen: SocketAddr,
    pub data_dir: PathBuf,
    pub admin: AdminConfig,
    pub secret_file: PathBuf,
    pub reserve_bytes: u64,
    pub log: String,
    pub metadata_memory_bytes: u64,
    pub group: Option<GroupConfig>,
}

/// Default rules of a new cluster's export: no restrictions on a loopback address, the safe rules on any
/// other.
pub(crate) fn default_rules(listen: SocketAddr) -> Rules {
    if listen.ip().is_loopback() { Rules::OPEN } else { Rules::SAFE }
}

impl MdsConfig {
    /// Parses the text of `file`.
    pub(crate) fn parse(file: &Path, text: &str) -> Result<Self, ConfigError> {
        let document = Document::parse(file, text)?;
        document.refuse_moved(&MOVED)?;
        let r = document.top(&KEYS)?;
        let everywhere = SocketAddr::from(([0, 0, 0, 0], crate::node::listen::PORT_DEFAULT));
        let listen =
            r.optional("listen", "an address such as \"10.0.0.1:2049\"", address)?.unwrap_or(everywhere);
        let consensus = r.optional("consensus", CONSENSUS, |v| {
            let consensus = address(v)?;
            if consensus.ip().is_unspecified() {
                return Err(format!("no machine can reach {consensus}"));
            }
            Ok(consensus)
        })?;
        let join = r.optional("join", JOIN, |v| match (address(v)?, consensus) {
            (_, None) => Err("the others have to reach this one, too, and there is no `consensus`".into()),
            (join, Some(own)) if join == own => Err("it is this one's own `consensus`".into()),
            (join, Some(_)) => Ok(join),
        })?;
        let learner =
            r.optional("learner", "true or false; true only with `join`", |v| match boolean(v)? {
                true if join.is_none() => Err("the first metaserver has to vote".into()),
                learner => Ok(learner),
            })?;
        let name = r.optional("name", "a name of at most 64 bytes, such as \"mds1\"", |v| {
            if consensus.is_none() {
                return Err(ALONE.into());
            }
            crate::node::name::parse(&string(v)?)
        })?;
        let group = consensus.map(|consensus| {
            let name = name.unwrap_or_else(|| consensus.ip().to_string());
            GroupConfig { name, consensus, join, learner: learner.unwrap_or(false) }
        });
        Ok(Self {
            group,
            listen,
            data_dir: r.required("data_dir", "a directory such as \"/var/lib/heorot/mds\"", path)?,
            admin: admin::read(&r, ADMIN_DEFAULT)?,
            secret_file: r.required("secret_file", "a file such as \"/etc/heorot/secret\"", path)?,
            reserve_bytes: r
                .optional("reserve", "a size such as \"64MiB\"", size)?
                .unwrap_or(RESERVE_DEFAULT_BYTES),
            log: r.optional("log", LOG, log)?.unwrap_or_else(|| logging::DEFAULT.into()),
            metadata_memory_bytes: r
                .optional("metadata_memory", "a size from 16MiB, such as \"1GiB\"", |v| {
                    let bytes = size(v)?;
                    if bytes < MEMORY_BYTES_MIN {
                        Err(format!("{bytes} bytes are too few"))
                    } else {
                        Ok(bytes)
                    }
                })?
                .unwrap_or_else(crate::process::memory::store_bytes_default),
        })
    }
}

const ALONE: &str = "it is for one of several metaservers, and there is no `consensus`";
const CONSENSUS: &str = "the address that the other metaservers reach this one at, such as \"10.0.0.1:2052\"";
const JOIN: &str =
    "another metaserver's `consensus`, such as \"10.0.0.2:2052\", on a metaserver with `consensus`";

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "data_dir = '/d'\nsecret_file = '/s'\n";

    fn parse(text: &str) -> Result<MdsConfig, String> {
        MdsConfig::parse(Path::new("mds.toml"), text).map_err(|e| e.to_string())
    }

    #[test]
    fn what_is_not_said_is_safe() {
        let config = parse(SMALL).unwrap();
        assert_eq!(config.reserve_bytes, RESERVE_DEFAULT_BYTES);
        assert_eq!(config.admin.address, ADMIN_DEFAULT.parse().ok());
        assert_eq!(config.admin.token_file, None, "metrics only");
        let local = parse(&format!("{SMALL}listen = '127.0.0.1:2049'\nadmin = 'off'")).unwrap();
        assert_eq!((default_rules(config.listen), default_rules(local.listen)), (Rules::SAFE, Rules::OPEN));
        assert_eq!(local.admin, AdminConfig::default());
    }

    #[test]
    fn the_example_is_right() {
        let text = include_str!("../../../../docs/examples/mds.toml");
        parse(text).unwrap();
        for key in KEYS {
            assert!(text.contains(&format!("{key} = ")), "the example has no {key}");
        }
    }

    #[test]
    fn mistakes_are_answered_with_line_key_and_remedy() {
        let cases = [
            ("reserv = '1GiB'", "mds.toml:3: there is no key `reserv`; did you mean `reserve`?"),
            (
                "\nlease_seconds = 20",
                "mds.toml:4: `lease_seconds` does not stand here: it holds for the whole cluster; take the line out, and use \
                 a command such as heorot set lease 30s",
            ),
            (
                "[[export]]\nclients = '*'",
                "mds.toml:3: `export` does not stand here: it holds for the whole cluster; take the line out, and use a \
                 command such as heorot export add / --network 10.0.0.0/8",
            ),
            (
                "metadata_memory = '1MiB'",
                "mds.toml:3: `metadata_memory` is not right: 1048576 bytes are too few; it must be a size from 16MiB, \
                 such as \"1GiB\"",
            ),
            (
                "listen = '10.0.0.1'",
                "mds.toml:3: `listen` is not right: \"10.0.0.1\" is no address with a port; it must be an address such \
                 as \"10.0.0.1:2049\"",
            ),
            (
                "name = 'mds1'",
                "mds.toml:3: `name` is not right: it is for one of several metaservers, and there is no `consensus`; it \
                 must be a name of at most 64 bytes, such as \"mds1\"",
            ),
            (
                "consensus = '10.0.0.1:2052'\nname = 'my rack'",
                "mds.toml:4: `name` is not right: \"my rack\" has ' ' in it, and a name has letters, digits, '-', '_' and '.' \
                 only; it must be a name of at most 64 bytes, such as \"mds1\"",
            ),
            (
                "admin = 'off'\nadmin_token_file = '/t'",
                "mds.toml:4: `admin_token_file` is not right: it is for `admin`, and that is \"off\"; it must be a file \
                 such as \"/etc/heorot/admin-token\"",
            ),
            (
                "admin = 7",
                "mds.toml:3: `admin` is not right: it is of type integer; it must be an address such as \
                 \"127.0.0.1:20490\", or \"off\"",
            ),
        ];
        for (line, error) in cases {
            assert_eq!(parse(&format!("{SMALL}{line}")), Err(error.to_string()));
        }
        let missing =
            "mds.toml: `data_dir` is missing; it must be a directory such as \"/var/lib/heorot/mds\"";
        assert_eq!(parse(""), Err(missing.to_string()));
        let syntax = parse(&format!("{SMALL}admin = \n")).unwrap_err();
        assert!(syntax.starts_with("mds.toml:3: not TOML: ") && !syntax.contains('\n'), "{syntax}");
        let twice = parse(&format!("{SMALL}admin = 1\nadmin = 2")).unwrap_err();
        assert!(twice.starts_with("mds.toml:4: not TOML: "), "{twice}");
    }
}
