//! The configuration of a metaserver.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use metaserver::{COLUMNS_MAX, DefaultStripe, Exports, Rules};
use namespace::StripeUnit;
use toml::Spanned;
use toml::de::DeValue;

use super::admin::{self, AdminConfig};
use super::{ConfigError, Document, LOG, address, boolean, exports, integer, log, path, size, string};
use crate::cli::ADMIN_DEFAULT;
use crate::logging;

pub(crate) const KEYS: [&str; 21] = [
    "listen",
    "data_dir",
    "admin",
    "admin_group",
    "admin_token_file",
    "secret_file",
    "lease_seconds",
    "stripe_unit",
    "stripe_columns",
    "clean_interval_seconds",
    "reserve",
    "log",
    "metadata_memory",
    "owner_domain",
    "owner_names",
    "name",
    "consensus",
    "join",
    "learner",
    "read_leases",
    "service_addresses",
];
/// Those that one metaserver has for itself. All others hold for the cluster, and a metaserver that joins is told them.
pub(crate) const OWN_KEYS: [&str; 13] = [
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
const EXPORT: &str = "export";

/// A lease: long enough for a client to survive a slow network, short enough that its locks do not outlive it by much.
pub(crate) const LEASE_DEFAULT: Duration = Duration::from_secs(30);
/// Orphans are rare, and listing every object of a full target reads its directories.
pub(crate) const CLEAN_DEFAULT: Duration = Duration::from_secs(24 * 3600);
/// Room to remove files when the disk is full: some 200,000 removals in the log, and the store's own growth.
pub(crate) const RESERVE_DEFAULT_BYTES: u64 = 64 << 20;
/// With less the store would read its pages again and again, for a handful of files too.
const MEMORY_BYTES_MIN: u64 = 16 << 20;
/// The layout of new files where nothing else is said.
pub(crate) const STRIPE_DEFAULT: DefaultStripe = DefaultStripe { unit: StripeUnit::DEFAULT, columns: 4 };

/// How users and groups are called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OwnerNames {
    /// The domain of names; none: only numbers are understood.
    pub domain: Option<String>,
    /// Whether names are given out, too, and not only understood.
    pub give_names: bool,
}

/// One of several metaservers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupConfig {
    /// For people.
    pub name: String,
    /// Where the others reach this one.
    pub consensus: SocketAddr,
    /// Where one of the others is reached: asked, at the first start, to take this one in.
    pub join: Option<SocketAddr>,
    /// Whether it serves without a vote.
    pub learner: bool,
    /// Whether it reads by leases.
    pub read_leases: bool,
}

/// A metaserver's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MdsConfig {
    pub listen: SocketAddr,
    pub data_dir: PathBuf,
    pub admin: AdminConfig,
    pub secret_file: PathBuf,
    pub lease: Duration,
    pub stripe: DefaultStripe,
    pub exports: Exports,
    pub clean_every: Duration,
    pub reserve_bytes: u64,
    pub log: String,
    pub metadata_memory_bytes: u64,
    pub owners: OwnerNames,
    pub group: Option<GroupConfig>,
    pub service_addresses: Vec<IpAddr>,
}

/// What holds for everybody where no export is: all on a machine's own address, the safe rules on any other.
pub(crate) fn default_rules(listen: SocketAddr) -> Rules {
    if listen.ip().is_loopback() { Rules::OPEN } else { Rules::SAFE }
}

impl MdsConfig {
    /// Reads the settings from the text of `file`.
    pub(crate) fn parse(file: &Path, text: &str) -> Result<Self, ConfigError> {
        let document = Document::parse(file, text)?;
        let r = document.top(&KEYS, &[(EXPORT, &exports::KEYS)])?;
        let everywhere = SocketAddr::from(([0, 0, 0, 0], crate::listen::PORT_DEFAULT));
        let listen =
            r.optional("listen", "an address such as \"10.0.0.1:2049\"", address)?.unwrap_or(everywhere);
        let sections = r.sections(EXPORT, &exports::KEYS, &KEYS)?;
        let seconds = |key, remedy, default: Duration, min, max| {
            let value = r.optional(key, remedy, |v| integer(v, min, max))?;
            Ok(value.map_or(default, Duration::from_secs))
        };
        let unit_remedy = "a multiple of 64KiB up to 1GiB, such as \"1MiB\"";
        let unit = r.optional("stripe_unit", unit_remedy, |v| {
            let bytes = size(v)?;
            let unit = u32::try_from(bytes).ok().and_then(StripeUnit::new);
            unit.ok_or_else(|| format!("{bytes} bytes are no stripe unit"))
        })?;
        let columns = r.optional("stripe_columns", "a number up to 64, such as 4; 0: all targets", |v| {
            Ok(integer(v, 0, COLUMNS_MAX.into())? as u32)
        })?;
        let domain = r.optional("owner_domain", "the domain of names, such as \"example.org\"", |v| {
            let domain = string(v)?;
            let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'.' || b == b'-';
            if domain.len() <= 253 && domain.bytes().all(fits) {
                Ok(domain)
            } else {
                Err("it is no domain".into())
            }
        })?;
        let consensus = r.optional("consensus", CONSENSUS, |v| {
            let consensus = address(v)?;
            if consensus.ip().is_unspecified() {
                return Err(format!("nobody can reach {consensus}"));
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
        let read_leases =
            r.optional("read_leases", "true or false; false where clocks may stand still", |v| {
                if consensus.is_none() { Err(ALONE.into()) } else { boolean(v) }
            })?;
        let name = r.optional("name", "a name of at most 64 bytes, such as \"mds1\"", |v| {
            if consensus.is_none() {
                return Err(ALONE.into());
            }
            let name = string(v)?;
            if name.len() > 64 { Err(format!("it has {} bytes", name.len())) } else { Ok(name) }
        })?;
        let group = consensus.map(|consensus| {
            let name = name.unwrap_or_else(|| consensus.ip().to_string());
            GroupConfig {
                name,
                consensus,
                join,
                learner: learner.unwrap_or(false),
                read_leases: read_leases.unwrap_or(true),
            }
        });
        let service_addresses = r.optional("service_addresses", SERVICE, |v| {
            let all = v.as_array().ok_or_else(|| format!("it is of type {}", v.type_str()))?;
            let one = |v: &Spanned<DeValue<'_>>| {
                let text = string(v.get_ref())?;
                text.parse::<IpAddr>().map_err(|_| format!("{text:?} is no address"))
            };
            let all: Vec<IpAddr> = all.iter().map(one).collect::<Result<_, _>>()?;
            if !all.is_empty() && !listen.ip().is_unspecified() {
                return Err(format!("clients of these are not served while `listen` is {listen}"));
            }
            Ok(all)
        })?;
        Ok(Self {
            service_addresses: service_addresses.unwrap_or_default(),
            group,
            listen,
            data_dir: r.required("data_dir", "a directory such as \"/var/lib/heorot/mds\"", path)?,
            admin: admin::read(&r, ADMIN_DEFAULT)?,
            secret_file: r.required("secret_file", "a file such as \"/etc/heorot/secret\"", path)?,
            lease: seconds("lease_seconds", "seconds from 5 to 3600, such as 30", LEASE_DEFAULT, 5, 3600)?,
            stripe: DefaultStripe {
                unit: unit.unwrap_or(STRIPE_DEFAULT.unit),
                columns: columns.unwrap_or(STRIPE_DEFAULT.columns),
            },
            exports: exports::exports(&sections, default_rules(listen))?,
            clean_every: seconds(
                "clean_interval_seconds",
                "seconds from 10 to 31536000, such as 86400",
                CLEAN_DEFAULT,
                10,
                365 * 24 * 3600,
            )?,
            reserve_bytes: r
                .optional("reserve", "a size such as \"64MiB\"", size)?
                .unwrap_or(RESERVE_DEFAULT_BYTES),
            owners: OwnerNames {
                give_names: r
                    .optional(
                        "owner_names",
                        "true or false; true only with owner_domain",
                        |v| match boolean(v)? {
                            true if domain.is_none() => {
                                Err("names are given out with a domain, and there is none".into())
                            }
                            give => Ok(give),
                        },
                    )?
                    .unwrap_or(false),
                domain,
            },
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
                .unwrap_or_else(crate::memory::store_bytes_default),
        })
    }
}

const ALONE: &str = "it is for one of several metaservers, and there is no `consensus`";
const CONSENSUS: &str = "the address that the other metaservers reach this one at, such as \"10.0.0.1:2052\"";
const SERVICE: &str =
    "addresses that move between metaservers, such as [\"10.0.0.100\"], with listen = \"0.0.0.0:2049\"";
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
        assert_eq!(config.exports, Exports::everybody(Rules::SAFE));
        assert_eq!((config.lease, config.reserve_bytes), (LEASE_DEFAULT, RESERVE_DEFAULT_BYTES));
        assert_eq!(config.admin.address, ADMIN_DEFAULT.parse().ok());
        assert_eq!(config.admin.token_file, None, "metrics only");
        let local = parse(&format!("{SMALL}listen = '127.0.0.1:2049'\nadmin = 'off'")).unwrap();
        assert_eq!(local.exports, Exports::everybody(Rules::OPEN));
        assert_eq!(local.admin, AdminConfig::default());
    }

    #[test]
    fn the_example_is_right() {
        let text = include_str!("../../../../docs/examples/mds.toml");
        let config = parse(text).unwrap();
        for key in KEYS.iter().chain(&exports::KEYS) {
            assert!(text.contains(&format!("{key} = ")), "the example has no {key}");
        }
        assert_eq!(config.stripe, STRIPE_DEFAULT);
        assert_eq!(config.clean_every, CLEAN_DEFAULT);
    }

    #[test]
    fn mistakes_are_answered_with_line_key_and_remedy() {
        let cases = [
            (
                "lease_second = 30",
                "mds.toml:3: there is no key `lease_second`; did you mean `lease_seconds`?",
            ),
            (
                "lease_seconds = 3",
                "mds.toml:3: `lease_seconds` is not right: 3 is not from 5 to 3600; it must be seconds from 5 to \
                 3600, such as 30",
            ),
            (
                "\nstripe_unit = '1MB'",
                "mds.toml:4: `stripe_unit` is not right: \"1MB\" is not a size such as 65536, 64KiB, 1MiB or 2GiB; it \
                 must be a multiple of 64KiB up to 1GiB, such as \"1MiB\"",
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
                "owner_names = true",
                "mds.toml:3: `owner_names` is not right: names are given out with a domain, and there is none; it must \
                 be true or false; true only with owner_domain",
            ),
            (
                "owner_domain = 'a@b'",
                "mds.toml:3: `owner_domain` is not right: it is no domain; it must be the domain of names, such as \
                 \"example.org\"",
            ),
            (
                "name = 'mds1'",
                "mds.toml:3: `name` is not right: it is for one of several metaservers, and there is no `consensus`; it \
                 must be a name of at most 64 bytes, such as \"mds1\"",
            ),
            (
                "read_leases = false",
                "mds.toml:3: `read_leases` is not right: it is for one of several metaservers, and there is no \
                 `consensus`; it must be true or false; false where clocks may stand still",
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
