//! Records of chains: the latest version that a target has heard of, and the targets that were in or were refilled, in
//! the target's file `chains`. A backup of the metaservers knows older versions.
//!
//! ```text
//! 9f86d081884c7d65 12 0123456789abcdef,fedcba9876543210 - 12 00a1b2c3d4e5f607:9   chain, version, in (the head first),
//!                                                                                 refilled, was in, covers
//! crc32c 1a2b3c4d                                                                 of all bytes before
//! ```
//!
//! A version is told to a member that is in before it acknowledges anything in it. So from any record, the records of
//! its targets lead to later ones, up to the last: see `cluster::chains::adopt`. A target that is dropped keeps its
//! record.
//!
//! "Was in" is the latest version in which the target was in, if it has kept its data since; 0: none, or something was
//! lost or removed, and dirty logs (`chain::dirty_log`) do not tell what the target lacks.
//!
//! "Covers" are members that are not in, of which the target's dirty log is complete, with the latest version in which
//! each was in. The log itself is in the file `unsettled` (`chain::dirty_log_file`).
//!
//! The file is written soon after: a disk that is slow holds up no change of a chain. But a member counts as refilled
//! only when the head has written that it was: from then on it may go on alone, and the head's record must lead to it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use host::SystemFiles;
use parking_lot::Mutex;
use wire::data;
use wire::data::Status;
use wire::data::chain_records::{ChainRecord, ResOk};

use crate::targets::Targets;

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
    refilled: Vec<u64>,
    /// Latest version in which the target was in and has kept its data since; 0: none.
    was_in: u32,
    /// Members that are not in, of which the dirty log is complete, with the latest version in which each was in.
    covers: Vec<(u64, u32)>,
    /// Number of the change that it came with.
    change: u64,
}

/// A chain that a target was in, and has kept its data of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    pub chain: u64,
    /// The latest known version.
    pub version: u32,
    /// Members of which the dirty log is complete, each with the latest version in which it was in.
    pub covers: Vec<(u64, u32)>,
}

impl Record {
    /// Latest version in which a member was in, if the dirty log is complete of it.
    fn covered_since(&self, target: u64) -> Option<u32> {
        let covered = self.covers.iter().find(|(covered, _)| *covered == target);
        if self.members_in.contains(&target) { Some(self.version) } else { covered.map(|(_, since)| *since) }
    }
}

#[derive(Default)]
struct Known {
    records: BTreeMap<u64, Record>,
    /// Number of changes, and of those that the file has.
    changes: u64,
    written: u64,
    /// True if the file could not be read: then there may have been records that are not here.
    is_damaged: bool,
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
    /// Reads the records of the target `target` in `dir`.
    pub(crate) fn open(dir: &Path, target: u64) -> Self {
        let path = dir.join(CHAINS_FILE);
        let read = match std::fs::read_to_string(&path) {
            Ok(text) => parsed(&text, target).ok_or_else(|| "its checksum is wrong".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(why) = &read {
            tracing::error!(
                file = %path.display(), %why,
                "what this target knew of its chains cannot be read. If the metaservers are restored from a backup, chains wait for it, \
                 until the target is declared lost. Remove the file while heorot status is healthy, and restart the data server"
            );
        }
        let is_damaged = read.is_err();
        let known = Known { is_damaged, records: read.unwrap_or_default(), ..Known::default() };
        Self { path, known: Mutex::new(known), writing: Mutex::default() }
    }

    /// Takes over later versions of the chains that `target` is or was a member of. `are_all`: it is a member of no
    /// others.
    pub(super) fn note(&self, target: u64, told: &[data::Chain], are_all: bool) {
        if are_all {
            let ids: BTreeSet<u64> = told.iter().map(|chain| chain.id).collect();
            self.clear_was_in(|chain| !ids.contains(&chain));
        }
        let mut known = self.known.lock();
        let number = known.changes + 1;
        for chain in told {
            let with = |state| -> Vec<u64> {
                let members = chain.members.iter().filter(|member| member.state == state);
                members.map(|member| member.target).take(MEMBERS_MAX).collect()
            };
            let (members_in, refilled) = (with(data::MemberState::In), with(data::MemberState::Refilling));
            let is_member = chain.members.iter().any(|member| member.target == target);
            let before = known.records.get(&chain.id);
            let before =
                before.map(|record| (record.version, record.was_in, record.refilled.contains(&target)));
            let is_new = match before {
                Some((version, ..)) => version < chain.version,
                None => is_member && known.records.len() < CHAINS_MAX,
            };
            // After a restore no member is in until one is found.
            if is_new && !members_in.is_empty() {
                // One that has lost data has them again when it was refilled.
                let is_in = members_in.contains(&target);
                let was_in = match before {
                    None if is_in => chain.version,
                    Some((_, was_in, was_refilled)) if is_in && (was_in > 0 || was_refilled) => chain.version,
                    Some((_, was_in, _)) if is_member => was_in,
                    _ => 0,
                };
                let others =
                    chain.members.iter().map(|member| member.target).filter(|other| *other != target);
                let absent = others.filter(|other| !members_in.contains(other)).take(MEMBERS_MAX);
                let covers = match known.records.get(&chain.id) {
                    // What it is filled with, of the time without a third member, is not in its log.
                    Some(before) if !refilled.contains(&target) => {
                        absent.filter_map(|other| Some((other, before.covered_since(other)?))).collect()
                    }
                    _ => vec![],
                };
                let version = chain.version;
                let record = Record { version, members_in, refilled, was_in, covers, change: number };
                known.records.insert(chain.id, record);
                known.changes = number;
            }
        }
    }

    /// Latest version in which the target was in, and has kept its data since; 0: none.
    pub(super) fn was_in(&self, chain: u64) -> u32 {
        self.known.lock().records.get(&chain).map_or(0, |record| record.was_in)
    }

    /// The target may have lost data of all chains. True if the file says so.
    pub(crate) fn lose_all(&self) -> bool {
        self.clear_was_in(|_| true);
        self.write_down();
        !self.has_news()
    }

    /// True if the file does not say yet that the target has lost data of this chain, and soon will.
    pub(super) fn is_about_to_say_loss(&self, chain: u64) -> bool {
        let known = self.known.lock();
        let is_new = |record: &Record| record.was_in == 0 && record.change > known.written;
        !known.is_failing && !known.is_damaged && known.records.get(&chain).is_some_and(is_new)
    }

    /// True if the file says that the target may lack data of this chain, or cannot be written.
    pub(crate) fn says_loss(&self, chain: u64) -> bool {
        let known = self.known.lock();
        let is_said = |record: &Record| record.was_in == 0 && record.change <= known.written;
        known.is_failing || known.is_damaged || known.records.get(&chain).is_none_or(is_said)
    }

    /// Chains that the target was in and has kept its data of.
    pub(crate) fn kept(&self) -> Vec<Kept> {
        let known = self.known.lock();
        let kept = known.records.iter().filter(|(_, record)| record.was_in > 0);
        let of = |(chain, record): (&u64, &Record)| {
            let members_in = record.members_in.iter().map(|target| (*target, record.version));
            let covers = members_in.chain(record.covers.iter().copied()).collect();
            Kept { chain: *chain, version: record.version, covers }
        };
        kept.map(of).collect()
    }

    /// All chains of which there are records.
    pub(crate) fn chains(&self) -> Vec<u64> {
        self.known.lock().records.keys().copied().collect()
    }

    /// The target has lost, or is about to lose, data of these chains.
    pub(super) fn clear_was_in(&self, of: impl Fn(u64) -> bool) {
        let mut known = self.known.lock();
        let number = known.changes + 1;
        let mut is_news = false;
        for (chain, record) in &mut known.records {
            if record.was_in > 0 && of(*chain) {
                (record.was_in, record.change) = (0, number);
                is_news = true;
            }
        }
        if is_news {
            known.changes = number;
        }
    }

    /// True if the file lacks a change. One that was damaged stays as it is: it would look whole.
    pub(crate) fn has_news(&self) -> bool {
        let known = self.known.lock();
        known.changes > known.written && !known.is_damaged
    }

    /// True if the file has this version of the chain, or a later one, or none of the chain is known; also if the
    /// disk has no room for the file, or the file is damaged: what hangs on it must not wait for ever.
    fn is_written(&self, chain: u64, version: u32) -> bool {
        let known = self.known.lock();
        let is_written = |record: &Record| record.version >= version && record.change <= known.written;
        known.is_failing || known.is_damaged || known.records.get(&chain).is_none_or(is_written)
    }

    /// Writes the file, if there is news, after another one that writes it. Blocks.
    pub(crate) fn finish_writing(&self) {
        drop(self.writing.lock());
        self.write_down();
    }

    /// Writes the file, if there is news, and it is not being written. Blocks.
    pub(super) fn write_down(&self) {
        let Some(_alone) = self.writing.try_lock() else { return };
        if !self.has_news() {
            return;
        }
        let (text, changes) = {
            let known = self.known.lock();
            (text(&known.records), known.changes)
        };
        let written = host::replace(&SystemFiles, &self.path, text.as_bytes());
        let mut known = self.known.lock();
        match &written {
            Ok(()) => known.written = changes,
            Err(error) if !known.is_failing => tracing::warn!(
                file = %self.path.display(), %error,
                "cannot write what this target knows of its chains, trying again: a restore from a backup would need it"
            ),
            Err(_) => {}
        }
        known.is_failing = written.is_err();
    }

    /// A page of the records.
    ///
    /// # Errors
    /// `Damaged`: the file could not be read.
    pub(crate) fn page(&self, after: Option<u64>) -> Result<ResOk, Status> {
        let known = self.known.lock();
        if known.is_damaged {
            return Err(Status::Damaged);
        }
        let from = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let mut rest = known.records.range((from, std::ops::Bound::Unbounded));
        let record = |(chain, record): (&u64, &Record)| ChainRecord {
            chain: *chain,
            version: record.version,
            members_in: record.members_in.clone(),
            refilled: record.refilled.clone(),
        };
        let records = rest.by_ref().take(PAGE).map(record).collect();
        Ok(ResOk { records, done: rest.next().is_none() })
    }
}

impl Targets {
    /// Notes what this server was told of chains in the records of its targets. `are_all`: its targets are members of no
    /// others.
    pub(crate) fn note_chains(&self, told: &[data::Chain], are_all: bool) {
        for target in self.all().iter() {
            target.chain_records().note(target.id(), told, are_all);
        }
        self.write_chains();
    }

    /// Members here lack data of chains, by chain and target, that nothing else tells of.
    pub(crate) fn note_losses(&self, lost: &[(u64, u64)]) {
        for (chain, target) in lost {
            if let Some(target) = self.get(*target) {
                target.chain_records().clear_was_in(|id| id == *chain);
            }
        }
        if !lost.is_empty() {
            self.write_chains();
        }
    }

    /// Has the records written that are not yet.
    pub(crate) fn write_chains(&self) {
        for target in self.all().iter() {
            if target.chain_records().has_news() && !target.objects().lost() {
                let written = std::sync::Arc::clone(target);
                target.blocking().begin(move || written.chain_records().write_down());
            }
        }
    }

    /// True if this version of the chain is in the file of the target, which is here.
    pub(crate) fn is_chain_written(&self, target: u64, chain: u64, version: u32) -> bool {
        self.get(target).is_some_and(|target| target.chain_records().is_written(chain, version))
    }
}

fn text(records: &BTreeMap<u64, Record>) -> String {
    let list = |targets: &[u64]| match targets {
        [] => "-".to_owned(),
        _ => targets.iter().map(|target| format!("{target:016x}")).collect::<Vec<_>>().join(","),
    };
    let line = |(chain, record): (&u64, &Record)| {
        let Record { version, members_in, refilled, was_in, covers, .. } = record;
        let covers: Vec<String> =
            covers.iter().map(|(target, since)| format!("{target:016x}:{since}")).collect();
        let covers = if covers.is_empty() { "-".to_owned() } else { covers.join(",") };
        format!("{chain:016x} {version} {} {} {was_in} {covers}\n", list(members_in), list(refilled))
    };
    let lines: String = records.iter().map(line).collect();
    let sum = crc32c::crc32c(lines.as_bytes());
    format!("{lines}crc32c {sum:08x}\n")
}

fn parsed(text: &str, target: u64) -> Option<BTreeMap<u64, Record>> {
    let (lines, sum) = text.strip_suffix('\n')?.rsplit_once("crc32c ")?;
    if u32::from_str_radix(sum, 16).ok()? != crc32c::crc32c(lines.as_bytes()) {
        return None;
    }
    let list = |word: &str| match word {
        "-" => Some(vec![]),
        _ => word.split(',').map(|target| u64::from_str_radix(target, 16).ok()).collect::<Option<Vec<u64>>>(),
    };
    let since = |word: &str| {
        let (target, version) = word.split_once(':')?;
        Some((u64::from_str_radix(target, 16).ok()?, version.parse().ok()?))
    };
    let record = |line: &str| {
        let mut words = line.split(' ');
        let chain = u64::from_str_radix(words.next()?, 16).ok()?;
        let version = words.next()?.parse().ok()?;
        let (members_in, refilled) = (list(words.next()?)?, list(words.next()?)?);
        // Files of earlier versions do not have it: their processes did not note all changes before others had them.
        let was_in = words.next().map_or(Some(0), |word| word.parse().ok())?;
        let (was_in, covers) = match words.next() {
            Some("-") => (was_in, vec![]),
            Some(word) => (was_in, word.split(',').map(since).collect::<Option<_>>()?),
            // Nor was their dirty log in a file: what a member that was not in had changed is lost.
            None if members_in.contains(&target) => (was_in, vec![]),
            None => (0, vec![]),
        };
        Some((chain, Record { version, members_in, refilled, was_in, covers, change: 0 }))
    };
    lines.lines().map(record).collect()
}

#[cfg(test)]
#[path = "records/tests.rs"]
mod tests;
