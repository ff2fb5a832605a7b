//! Exports: directory, network, rights, and squash of users (root squash) for each.
//!
//! An export is a row of the cluster map's settings: the directory's inode and a network are the key, so that
//! a directory has as many exports as networks, each with rules of its own. An export names a directory
//! and not a path: an export stays with a renamed directory, and ends with the directory.
//!
//! ```text
//! export 1 10.0.0.0/8  ->  rw,squash=root,anonymous=65534:65534,secure,strict /
//! ```
//!
//! The narrowest network of a directory that holds an address decides, whatever the order of the rows, so
//! that an exception needs no place before its rule. An address in no network is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use host::Network;
use namespace::InodeId;
use parking_lot::RwLock;

/// User and group of anonymous calls, unless an export names others.
pub const ANONYMOUS_ID: u32 = 65534;
/// Start of an export's key.
const KEY: &str = "export";
/// Start of the key of a change of exports: see [`changed_row`].
const CHANGED_KEY: &str = "exports_changed";

/// Consistency of reads by clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consistency {
    /// A read sees everything that any metaserver had acknowledged before the read arrived.
    Strict,
    /// A read sees as much as close-to-open consistency demands.
    Lazy,
}

/// Access through an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everything that the permission bits allow.
    ReadWrite,
    /// Nothing that changes anything.
    ReadOnly,
}

/// Calls that are mapped to the anonymous user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Squash {
    /// Only calls without a user (AUTH_NONE).
    None,
    /// Also calls of user 0, and group 0 wherever a call has it.
    Root,
    /// All calls.
    All,
}

/// Rules for the clients of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Access, read-write or read-only.
    pub access: Access,
    /// Calls mapped to the anonymous user.
    pub squash: Squash,
    /// Anonymous user.
    pub anonymous_uid: u32,
    /// Anonymous group.
    pub anonymous_gid: u32,
    /// Only source ports below 1024 are served, which only a client's root can use.
    pub secure: bool,
    /// Consistency of reads, where there are several metaservers.
    pub consistency: Consistency,
}

impl Rules {
    /// Default rules: read-write for all users but the root of a client, and calls only from a reserved port.
    pub const SAFE: Rules = Rules {
        access: Access::ReadWrite,
        squash: Squash::Root,
        anonymous_uid: ANONYMOUS_ID,
        anonymous_gid: ANONYMOUS_ID,
        secure: true,
        consistency: Consistency::Strict,
    };
    /// Read-write for all users, root too, from any port: for a machine's own address.
    pub const OPEN: Rules = Rules { squash: Squash::None, secure: false, ..Rules::SAFE };

    /// These rules, changed by the words of `text`: `rw`, `ro`, `squash=root`, …
    ///
    /// # Errors
    /// A line that lists the valid words.
    pub fn with(mut self, text: &str) -> Result<Self, String> {
        for word in text.split(',').filter(|word| !word.is_empty()) {
            match word {
                "rw" => self.access = Access::ReadWrite,
                "ro" => self.access = Access::ReadOnly,
                "squash=none" => self.squash = Squash::None,
                "squash=root" => self.squash = Squash::Root,
                "squash=all" => self.squash = Squash::All,
                "secure" => self.secure = true,
                "insecure" => self.secure = false,
                "strict" => self.consistency = Consistency::Strict,
                "lazy" => self.consistency = Consistency::Lazy,
                other => {
                    let ids = other.strip_prefix("anonymous=").and_then(|ids| ids.split_once(':'));
                    let ids = ids.and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
                    (self.anonymous_uid, self.anonymous_gid) = ids.ok_or_else(|| {
                        format!(
                            "{word:?} is no rule of an export; there are rw, ro, squash=none, squash=root, squash=all, \
                             anonymous=UID:GID, secure, insecure, strict and lazy"
                        )
                    })?;
                }
            }
        }
        Ok(self)
    }
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = match self.access {
            Access::ReadWrite => "rw",
            Access::ReadOnly => "ro",
        };
        let squash = match self.squash {
            Squash::None => "none",
            Squash::Root => "root",
            Squash::All => "all",
        };
        let port = if self.secure { "secure" } else { "insecure" };
        let consistency = match self.consistency {
            Consistency::Strict => "strict",
            Consistency::Lazy => "lazy",
        };
        let (uid, gid) = (self.anonymous_uid, self.anonymous_gid);
        write!(f, "{access},squash={squash},anonymous={uid}:{gid},{port},{consistency}")
    }
}

/// A directory, a network, and the rules for its clients there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// The directory.
    pub root: InodeId,
    /// The directory's path when it was exported, for people.
    pub path: String,
    /// Network of the clients.
    pub network: Network,
    /// Rules for these clients.
    pub rules: Rules,
}

impl Export {
    /// An export of the whole volume.
    #[must_use]
    pub fn of_volume(network: Network, rules: Rules) -> Self {
        Self { root: InodeId::ROOT, path: "/".into(), network, rules }
    }

    /// The key of the row.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{KEY} {} {}", self.root.0, self.network)
    }

    /// The row.
    #[must_use]
    pub fn row(&self) -> (String, String) {
        (self.key(), format!("{} {}", self.rules, self.path))
    }

    /// The export of a row; none: it is another setting.
    fn of_row(key: &str, value: &str) -> Option<Result<Self, String>> {
        let mut words = key.split(' ');
        if words.next() != Some(KEY) {
            return None;
        }
        let export = || {
            let root = words.next().and_then(|word| word.parse().ok()).ok_or("its key has no directory")?;
            let network = Network::from_str(words.next().unwrap_or_default())?;
            let (rules, path) = value.split_once(' ').ok_or("it has no path")?;
            Ok(Self { root: InodeId(root), path: path.into(), network, rules: Rules::SAFE.with(rules)? })
        };
        Some({ export }())
    }
}

/// A settings row that goes into the map with a change of exports. It stays until the leader, or the next
/// one, has recalled the write layouts.
#[must_use]
pub fn changed_row(random: u64) -> (String, String) {
    (format!("{CHANGED_KEY} {random:016x}"), "recall".into())
}

/// The changes of exports whose recall of write layouts is still pending.
#[must_use]
pub fn changes_pending(settings: &BTreeMap<String, String>) -> Vec<String> {
    let is_change = |key: &&String| key.split(' ').next() == Some(CHANGED_KEY);
    settings.keys().filter(is_change).cloned().collect()
}

/// All exports of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exports {
    /// By directory; the exports of one directory have the narrowest network first.
    by_directory: BTreeMap<InodeId, Vec<Export>>,
    /// True if any export is lazy.
    any_lazy: bool,
}

impl Exports {
    /// Returns the exports, given in any order.
    #[must_use]
    pub fn new(mut exports: Vec<Export>) -> Self {
        exports.sort_by_key(|export| std::cmp::Reverse(export.network.prefix()));
        let mut all = Self::default();
        for export in exports {
            all.any_lazy |= export.rules.consistency == Consistency::Lazy;
            all.by_directory.entry(export.root).or_default().push(export);
        }
        all
    }

    /// The exports among the settings of a cluster map. A row that cannot be read is logged and serves no
    /// client.
    #[must_use]
    pub fn of(settings: &BTreeMap<String, String>) -> Self {
        let row = |(key, value): (&String, &String)| {
            let export = Export::of_row(key, value)?;
            export
                .inspect_err(|why| {
                    tracing::warn!(key, value, "export not understood, it serves nobody: {why}")
                })
                .ok()
        };
        Self::new(settings.iter().filter_map(row).collect())
    }

    /// The same rules for every address, in the whole volume.
    #[must_use]
    pub fn everybody(rules: Rules) -> Vec<Export> {
        [Network::ALL_V4, Network::ALL_V6].map(|network| Export::of_volume(network, rules)).to_vec()
    }

    /// The export of a directory for an address.
    #[must_use]
    pub fn find(&self, root: InodeId, address: IpAddr) -> Option<&Export> {
        self.by_directory.get(&root)?.iter().find(|export| export.network.contains(address))
    }

    /// The exports for an address, one for each directory.
    pub fn of_address(&self, address: IpAddr) -> impl Iterator<Item = &Export> {
        let narrowest =
            move |all: &'_ Vec<Export>| all.iter().position(|export| export.network.contains(address));
        self.by_directory.values().filter_map(move |all| all.get(narrowest(all)?))
    }

    /// True if there are no exports.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_directory.is_empty()
    }

    /// All exports, by directory, the narrowest network first.
    pub fn iter(&self) -> impl Iterator<Item = &Export> {
        self.by_directory.values().flatten()
    }

    /// True if any export is lazy.
    #[must_use]
    pub fn any_lazy(&self) -> bool {
        self.any_lazy
    }

    /// The networks of all exports, each once: data servers serve clients in these networks.
    #[must_use]
    pub fn networks(&self) -> BTreeSet<Network> {
        self.iter().map(|export| export.network).collect()
    }
}

/// The exports in force, which can be replaced while clients are served.
#[derive(Default)]
pub struct CurrentExports(RwLock<Arc<Exports>>);

impl CurrentExports {
    /// All exports in force.
    #[must_use]
    pub fn get(&self) -> Arc<Exports> {
        Arc::clone(&self.0.read())
    }

    /// Replaces the exports. Returns true if clients notice a change: without any exports before, no client
    /// was served.
    pub(crate) fn replace(&self, exports: Exports) -> bool {
        let mut current = self.0.write();
        let changes = !current.is_empty() && **current != exports;
        *current = Arc::new(exports);
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    #[test]
    fn an_export_is_a_row_of_the_settings() {
        let rules = Rules::SAFE.with("ro,squash=all,anonymous=7:8,insecure,lazy").unwrap();
        let export = Export { root: InodeId(9), path: "/a b".into(), network: network("10.0.0.0/8"), rules };
        let (key, value) = export.row();
        assert_eq!(
            (key.as_str(), value.as_str()),
            ("export 9 10.0.0.0/8", "ro,squash=all,anonymous=7:8,insecure,lazy /a b")
        );
        assert_eq!(Export::of_row(&key, &value), Some(Ok(export)));
        assert_eq!(Export::of_row("lease", "30s"), None);
        for (key, value) in
            [("export", "rw /"), ("export 1", "rw /"), ("export 1 ::/0", "rw"), ("export 1 ::/0", "wr /")]
        {
            assert!(matches!(Export::of_row(key, value), Some(Err(_))), "{key} {value}");
        }
        let settings = [("lease", "30s"), ("export 1 ::/0", "rw /"), ("export 2 ::/0", "later /")];
        let settings = settings.map(|(key, value)| (key.to_string(), value.to_string()));
        let exports = Exports::of(&settings.into_iter().collect());
        assert_eq!(exports.iter().count(), 1, "the one that is understood");
    }

    #[test]
    fn rules_change_by_the_words_that_are_said() {
        assert_eq!(Rules::SAFE.with(""), Ok(Rules::SAFE));
        assert_eq!(Rules::SAFE.with("squash=none,insecure"), Ok(Rules::OPEN));
        assert_eq!(Rules::OPEN.with(&Rules::SAFE.to_string()), Ok(Rules::SAFE));
        for wrong in ["readonly", "squash=some", "anonymous=7", "anonymous=-1:3", "rw ro"] {
            assert!(Rules::SAFE.with(wrong).unwrap_err().contains("is no rule of an export"), "{wrong}");
        }
    }

    #[test]
    fn the_narrowest_network_of_a_directory_decides_in_any_order() {
        let read_only = Rules { access: Access::ReadOnly, ..Rules::SAFE };
        let mut exports = vec![
            Export::of_volume(network("10.0.0.0/8"), read_only),
            Export::of_volume(network("fd00::/8"), read_only),
            Export::of_volume(network("10.1.0.0/16"), Rules::SAFE),
            Export {
                root: InodeId(5),
                path: "/scratch".into(),
                ..Export::of_volume(network("10.1.0.9"), Rules::OPEN)
            },
        ];
        for _ in 0..2 {
            let all = Exports::new(exports.clone());
            let rules =
                |root, address: &str| all.find(root, address.parse().unwrap()).map(|export| export.rules);
            assert_eq!(rules(InodeId::ROOT, "10.2.0.1"), Some(read_only));
            assert_eq!(rules(InodeId::ROOT, "fd12::1"), Some(read_only));
            assert_eq!(rules(InodeId::ROOT, "10.1.0.1"), Some(Rules::SAFE));
            assert_eq!(rules(InodeId::ROOT, "11.0.0.1"), None);
            assert_eq!(
                (rules(InodeId(5), "10.1.0.9"), rules(InodeId(5), "10.1.0.8")),
                (Some(Rules::OPEN), None)
            );
            assert_eq!(all.of_address("10.1.0.9".parse().unwrap()).count(), 2);
            assert_eq!(all.networks().len(), 4);
            exports.reverse();
        }
        let all = Exports::new(Exports::everybody(Rules::OPEN));
        for address in ["::1", "9.9.9.9", "::ffff:10.0.0.1"] {
            assert!(all.find(InodeId::ROOT, address.parse().unwrap()).is_some(), "{address}");
        }
        assert_eq!(Exports::new(vec![]).find(InodeId::ROOT, "10.0.0.1".parse().unwrap()), None);
    }
}
