//! Records of chains: the latest version that a target has heard of, and the targets that were in, in the target's
//! file `chains`. A backup of the metaservers knows older versions.
//!
//! ```text
//! 9f86d081884c7d65 12 0123456789abcdef,fedcba9876543210   chain, version, targets that are in, the head first
//! crc32c 1a2b3c4d                                          of all bytes before
//! ```
//!
//! A version is told to a member that is in before it acknowledges anything in it. So from any record, the records of
//! the targets that were in lead to later ones, up to the last: see `cluster::chains::adopt`. A target that is dropped
//! keeps its record.
//!
//! The file is written soon after: a disk that is slow holds up no change of a chain. A process that dies in between
//! has a record that is some hundred milliseconds old.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use host::SystemFiles;
use parking_lot::Mutex;
use wire::data;
use wire::data::chain_records::{ChainRecord, ResOk};

use crate::server::Targets;

/// Name of the file.
const CHAINS_FILE: &str = "chains";
/// Chains that are kept, as in the table.
const CHAINS_MAX: usize = 65_536;
/// Targets of one record that are believed.
const MEMBERS_MAX: usize = 16;
/// Records of a page: some 60 KiB.
const PAGE: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    version: u32,
    members_in: Vec<u64>,
}

#[derive(Default)]
struct Known {
    records: BTreeMap<u64, Record>,
    /// True if the file has not all of them.
    is_changed: bool,
    /// True if the last attempt to write failed, and the log has it.
    is_failing: bool,
}

/// The records of one target.
pub(crate) struct ChainRecords {
    path: PathBuf,
    known: Mutex<Known>,
    /// One writes at a time.
    writing: Mutex<()>,
}

impl ChainRecords {
    /// Reads the records of the target in `dir`. A file that cannot be read, or is damaged, is left out: the other
    /// members have theirs.
    pub(crate) fn open(dir: &Path) -> Self {
        let path = dir.join(CHAINS_FILE);
        let records = match std::fs::read_to_string(&path) {
            Ok(text) => parsed(&text).unwrap_or_else(|| {
                tracing::error!(
                    file = %path.display(),
                    "damaged: what this target knew of its chains is forgotten. It matters only if the metaservers are restored from a \
                     backup now"
                );
                BTreeMap::new()
            }),
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::error!(file = %path.display(), %error, "cannot read what this target knew of its chains");
                }
                BTreeMap::new()
            }
        };
        Self { path, known: Mutex::new(Known { records, ..Known::default() }), writing: Mutex::default() }
    }

    /// Takes over later versions of the chains that `target` is or was a member of. Returns true if there is news.
    fn note(&self, target: u64, told: &[data::Chain]) -> bool {
        let mut known = self.known.lock();
        for chain in told {
            let is_in = |member: &&data::Member| member.state == data::MemberState::In;
            let members_in: Vec<u64> =
                chain.members.iter().filter(is_in).map(|member| member.target).take(MEMBERS_MAX).collect();
            let is_member = chain.members.iter().any(|member| member.target == target);
            let before = known.records.get(&chain.id).map(|record| record.version);
            let is_new = match before {
                Some(version) => version < chain.version,
                None => is_member && known.records.len() < CHAINS_MAX,
            };
            // After a restore no member is in until one is found.
            if is_new && !members_in.is_empty() {
                known.records.insert(chain.id, Record { version: chain.version, members_in });
                known.is_changed = true;
            }
        }
        known.is_changed
    }

    /// Writes the file, if there is news. Blocks.
    fn write_down(&self) {
        let _alone = self.writing.lock();
        let text = {
            let mut known = self.known.lock();
            if !std::mem::take(&mut known.is_changed) {
                return;
            }
            text(&known.records)
        };
        let written = host::replace(&SystemFiles, &self.path, text.as_bytes());
        let mut known = self.known.lock();
        if let Err(error) = &written {
            known.is_changed = true;
            if !known.is_failing {
                tracing::warn!(
                    file = %self.path.display(), %error,
                    "cannot write what this target knows of its chains, trying again with the next change: a restore from a backup \
                     would need it"
                );
            }
        }
        known.is_failing = written.is_err();
    }

    /// A page of the records.
    pub(crate) fn page(&self, after: Option<u64>) -> ResOk {
        let known = self.known.lock();
        let from = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let mut rest = known.records.range((from, std::ops::Bound::Unbounded));
        let record = |(chain, record): (&u64, &Record)| ChainRecord {
            chain: *chain,
            version: record.version,
            members_in: record.members_in.clone(),
        };
        let records = rest.by_ref().take(PAGE).map(record).collect();
        ResOk { records, done: rest.next().is_none() }
    }
}

impl Targets {
    /// Notes what this server was told of chains in the records of its targets.
    pub(crate) fn note_chains(&self, told: &[data::Chain]) {
        for target in self.all() {
            if target.chain_records().note(target.id(), told) && !target.objects().lost() {
                let target = std::sync::Arc::clone(target);
                tokio::task::spawn_blocking(move || target.chain_records().write_down());
            }
        }
    }
}

fn text(records: &BTreeMap<u64, Record>) -> String {
    let line = |(chain, record): (&u64, &Record)| {
        let targets: Vec<String> = record.members_in.iter().map(|target| format!("{target:016x}")).collect();
        format!("{chain:016x} {} {}\n", record.version, targets.join(","))
    };
    let lines: String = records.iter().map(line).collect();
    let sum = crc32c::crc32c(lines.as_bytes());
    format!("{lines}crc32c {sum:08x}\n")
}

fn parsed(text: &str) -> Option<BTreeMap<u64, Record>> {
    let (lines, sum) = text.strip_suffix('\n')?.rsplit_once("crc32c ")?;
    if u32::from_str_radix(sum, 16).ok()? != crc32c::crc32c(lines.as_bytes()) {
        return None;
    }
    let record = |line: &str| {
        let mut words = line.split(' ');
        let chain = u64::from_str_radix(words.next()?, 16).ok()?;
        let version = words.next()?.parse().ok()?;
        let target = |word| u64::from_str_radix(word, 16).ok();
        Some((
            chain,
            Record { version, members_in: words.next()?.split(',').map(target).collect::<Option<_>>()? },
        ))
    };
    lines.lines().map(record).collect()
}

#[cfg(test)]
mod tests {
    use data::MemberState::{Away, In, Refilling};

    use super::*;

    fn told(id: u64, version: u32, states: &[data::MemberState]) -> data::Chain {
        let member = |(at, state): (usize, &data::MemberState)| data::Member {
            target: at as u64 + 1,
            address: bytes::Bytes::new(),
            state: *state,
        };
        data::Chain { id, version, verifier: 1, members: states.iter().enumerate().map(member).collect() }
    }

    fn known(records: &ChainRecords) -> Vec<(u64, u32, Vec<u64>)> {
        records.page(None).records.into_iter().map(|r| (r.chain, r.version, r.members_in)).collect()
    }

    #[test]
    fn the_latest_version_with_members_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let records = ChainRecords::open(dir.path());
        assert!(!records.note(9, &[told(5, 1, &[In, In])]), "not its chain");
        assert!(records.note(2, &[told(5, 3, &[In, Refilling]), told(4, 1, &[In, In])]));
        records.write_down();
        assert!(!records.note(2, &[told(5, 2, &[In, In])]), "an earlier one");
        assert!(!records.note(2, &[told(5, 4, &[Away, Away])]), "as after a restore");
        assert!(records.note(2, &[told(5, 5, &[In])]), "it was dropped");
        assert_eq!(known(&records), [(4, 1, vec![1, 2]), (5, 5, vec![1])]);
        assert_eq!(known(&ChainRecords::open(dir.path()))[1].1, 3, "not written yet");
        records.write_down();
        assert_eq!(known(&ChainRecords::open(dir.path())), known(&records));
    }

    #[test]
    fn a_damaged_file_is_none_and_a_full_disk_is_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let records = ChainRecords::open(dir.path());
        let file = dir.path().join(CHAINS_FILE);
        std::fs::create_dir(dir.path().join("chains.new")).unwrap(); // in the way
        assert!(records.note(1, &[told(5, 1, &[In, In])]));
        records.write_down();
        assert!(!file.exists());
        std::fs::remove_dir(dir.path().join("chains.new")).unwrap();
        records.write_down();
        let text = std::fs::read_to_string(&file).unwrap();
        for (at, _) in text.char_indices() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            std::fs::write(&file, bytes).unwrap();
            assert_eq!(known(&ChainRecords::open(dir.path())), [], "byte {at}");
        }
        std::fs::write(&file, text).unwrap();
        assert_eq!(known(&ChainRecords::open(dir.path())), [(5, 1, vec![1, 2])]);
    }

    #[test]
    fn many_records_are_told_in_pages() {
        let dir = tempfile::tempdir().unwrap();
        let records = ChainRecords::open(dir.path());
        let all: Vec<data::Chain> = (1..=PAGE as u64 + 1).map(|id| told(id, 1, &[In])).collect();
        assert!(records.note(1, &all));
        let first = records.page(None);
        assert_eq!((first.records.len(), first.done), (PAGE, false));
        let second = records.page(Some(PAGE as u64));
        assert_eq!((second.records.len(), second.done), (1, true));
    }
}
