//! The log: what is in it, in memory and on disk, for those who order, send and apply.
//!
//! ```text
//! append ─▶ memory: recent entries ─▶ queue ─▶ one thread: drain, write, one sync ─▶ callbacks, in order
//!                │                              vote, truncate, purge go the same way
//!                └─▶ read: recent ones from memory, older ones from the segments
//! ```
//!
//! An entry can be read as soon as `append` returns; it counts once its callback was called. Entries stay in memory
//! until they are applied and on disk, and then as long as there is room.

mod cut;
mod disk;
pub(crate) mod record;
mod segments;
mod tail;
mod vote;
mod writer;

use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openraft::storage::{IOFlushed, LogState, RaftLogStorage};
use openraft::{OptionalSend, RaftLogReader};
use thiserror::Error;
use tokio::sync::oneshot;

use disk::{Disk, Segments};
use segments::Place;
pub(crate) use segments::SEGMENT_BYTES;
use writer::{Job, Jobs, Writer};

use crate::types::{Entry, LeaderId, LogId, Membership, Payload, Types, Vote};
use crate::work::{Ground, LogKept, Running, Work};

/// Entries kept in memory beyond those that are needed: what a follower that is a little behind asks for.
const RECENT_MAX: usize = 8192;
/// And their data.
const RECENT_BYTES_MAX: usize = 16 << 20;
/// Bytes of data that one batch to a follower has; with names and numbers it must fit into a record of our RPC.
const SEND_BYTES_MAX: usize = 512 << 10;
/// Jobs that wait for the thread. Openraft has far fewer in flight.
const QUEUE_MAX: usize = 16_384;

/// The log failed. Says what was being done to which file.
#[derive(Debug, Error)]
pub enum LogError {
    /// The operating system said no.
    #[error("{doing} {path}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is no room for another segment; nothing was written.
    #[error("no space for the log in {0}: free some, or move the data directory to a larger disk")]
    NoSpace(PathBuf),
    /// The log is damaged where it had been acknowledged.
    #[error(
        "{path}: record {index} is damaged or missing: restore the metadata from a backup, or have it join others as a new member"
    )]
    Damaged {
        /// The segment.
        path: PathBuf,
        /// The index that should have been there.
        index: u64,
    },
    /// A crash came when the store was on disk and the last entries that it has were not: nobody was told that they were.
    /// The log goes on after the store, as after a snapshot.
    #[error("the store is ahead of the log")]
    Behind,
    /// The vote is damaged.
    #[error("{0}: damaged: restore the metadata from a backup, or have it join others as a new member")]
    DamagedVote(PathBuf),
    /// Written in a form that is no longer read.
    #[error("{0}: written by an earlier version of heorot, which this one cannot read")]
    Older(PathBuf),
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LogError {
    move |source| LogError::Io { doing, path: path.to_owned(), source }
}

/// What is known of the log without looking at the disk.
#[derive(Default)]
pub(crate) struct Memory {
    /// The last entries, without a gap, up to the last of all.
    recent: VecDeque<Entry>,
    recent_bytes: usize,
    last: Option<LogId>,
    purged: Option<LogId>,
    vote: Option<Vote>,
    /// Entries below this index are on disk.
    written: u64,
    /// Entries below this index are applied.
    applied: u64,
    /// The voter, where there is only one, by the last entry that says who belongs to the group.
    only_voter: Option<u64>,
    members_known: bool,
    /// Where the log is cut by jobs that wait, in their order.
    cuts: VecDeque<u64>,
    full: bool,
    /// It is being stopped: a wait for space ends.
    stopping: bool,
    failure: Option<String>,
}

impl Memory {
    fn lock(memory: &Mutex<Memory>) -> MutexGuard<'_, Memory> {
        memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&mut self, entry: Entry) {
        self.last = Some(entry.log_id);
        if let Payload::Membership(membership) = &entry.payload {
            // It counts from here on, also before it is committed.
            self.note_members(membership);
        }
        self.recent_bytes += data_bytes(&entry);
        self.recent.push_back(entry);
    }

    fn note_members(&mut self, membership: &Membership) {
        let mut voters = membership.voter_ids();
        self.only_voter = voters.next().filter(|_| voters.next().is_none());
        self.members_known = true;
    }

    /// Lets go of entries that nobody needs soon.
    fn shrink(&mut self) {
        let needed_from = self.written.min(self.applied);
        while self.recent.len() > RECENT_MAX || self.recent_bytes > RECENT_BYTES_MAX {
            let Some(entry) = self.recent.pop_front_if(|entry| entry.log_id.index < needed_from) else {
                return;
            };
            self.recent_bytes -= data_bytes(&entry);
        }
    }

    /// The index of the first entry in memory.
    fn first_recent(&self) -> Option<u64> {
        self.recent.front().map(|entry| entry.log_id.index)
    }
}

/// Bytes of an entry on disk and on its way, about.
fn data_bytes(entry: &Entry) -> usize {
    match &entry.payload {
        Payload::Normal(change) => postcard::experimental::serialized_size(&*change.0).unwrap_or(0),
        Payload::Blank | Payload::Membership(_) => 0,
    }
}

/// What a store holds, for the log to go on from.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Held {
    /// The last entry that is applied.
    pub last: Option<LogId>,
    /// The last entry of the snapshot that it came from, if a snapshot is where it comes from.
    pub installed: Option<LogId>,
    /// How far the log was on disk at least when the store was as it is.
    pub written: Option<u64>,
}

/// A handle on the log; all copies are of the same.
#[derive(Clone)]
pub(crate) struct Log {
    place: Place,
    memory: Arc<Mutex<Memory>>,
    segments: Segments,
    jobs: Jobs,
    running: Arc<Mutex<Option<Running>>>,
}

impl Log {
    /// Opens the log in `dir`, for a store that is as `held` says. Entries that the store does not have are kept in memory, to
    /// be applied again.
    ///
    /// # Errors
    /// [`LogError`]; when entries are missing that are not in the store either, it is damaged.
    pub(crate) fn open(ground: &Ground, dir: &Path, held: Held) -> Result<Self, LogError> {
        let Held { last, installed, written } = held;
        let applied = last.map_or(0, |last| last.index + 1);
        let (files, segment_bytes) = (Arc::clone(&ground.files), ground.segment_bytes);
        let entropy = Arc::clone(&ground.entropy);
        let place = Place { files, entropy, dir: dir.to_owned(), segment_bytes };
        let mut memory = Memory { applied, ..Memory::default() };
        let mut other = false;
        let mut disk = Disk::open(place.clone(), |entry| {
            other |= installed.is_some_and(|at| at.index == entry.log_id.index && at != entry.log_id);
            memory.push(entry);
            memory.written = memory.last.map_or(0, |last| last.index + 1);
            memory.shrink();
        })?;
        memory.vote = vote::read(&*place.files, dir)?;
        if let Some(vote) = &memory.vote {
            // One that was being written when the process was killed may be in the page cache only, or in one copy; this
            // member goes on as if it were on disk.
            vote::write(&*place.files, dir, vote)?;
        }
        // A crash came between a snapshot and the log's purge: what is in the log is not needed, or was never committed.
        let installed = installed.filter(|at| at.index + 1 == applied);
        let after_snapshot = installed.filter(|_| other || disk.next() < applied);
        if let Some(at) = after_snapshot {
            disk.begin_after(at)?;
            memory = Memory { applied, written: applied, vote: memory.vote, ..Memory::default() };
        }
        let segments = disk.segments();
        {
            let all = disk::lock(&segments);
            memory.purged = all.first().and_then(|segment| segment.before);
            memory.last = memory.last.or(memory.purged);
            let (first, next) = (all.first().map_or(0, |s| s.first), memory.last.map_or(0, |l| l.index + 1));
            if next < applied && written.is_some_and(|written| written <= next) {
                return Err(LogError::Behind);
            }
            if first > applied || next < applied {
                // The store lost what the log has forgotten, or is ahead of it: someone removed files.
                let path = all.first().map_or_else(|| dir.to_owned(), |segment| segment.path.clone());
                return Err(LogError::Damaged { path, index: if first > applied { applied } else { next } });
            }
        }
        let memory = Arc::new(Mutex::new(memory));
        let writer = Writer { place: place.clone(), disk, memory: Arc::clone(&memory), failure: None };
        let work = Work(ground.pace.clone());
        let started = writer::start(writer, QUEUE_MAX, &work).map_err(failed("start a thread for", dir));
        let (jobs, running) = started?;
        let running = Arc::new(Mutex::new(Some(running)));
        Ok(Self { place, memory, segments, jobs, running })
    }

    /// What there is no room for fails from here on: consensus may be waiting for a vote that waits behind it, and cannot
    /// end before.
    pub(crate) fn waits_no_more(&self) {
        self.memory().stopping = true;
    }

    /// Has what waits written; then nothing can be appended any more. Returns what is to be waited for.
    #[must_use]
    pub(crate) fn close(&self) -> Option<Running> {
        self.waits_no_more();
        let _ = self.jobs.ask(Job::Close);
        self.running.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        Memory::lock(&self.memory)
    }

    fn ask(&self, job: Job) -> io::Result<()> {
        self.jobs.ask(job)
    }

    /// Entries below this index are applied, and need not stay in memory.
    pub(crate) fn applied(&self, next: u64) {
        let mut memory = self.memory();
        memory.applied = next;
        memory.shrink();
    }

    /// The voter, if there is only one.
    pub(crate) fn only_voter(&self) -> Option<u64> {
        self.memory().only_voter
    }

    /// Who belonged to the group when the store was as it is; what the log says is newer.
    pub(crate) fn members_before(&self, membership: &Membership) {
        let mut memory = self.memory();
        if !memory.members_known {
            memory.note_members(membership);
        }
    }

    /// Entries below this index are on disk.
    pub(crate) fn written(&self) -> u64 {
        self.memory().written
    }

    /// The index after the last entry.
    pub(crate) fn next(&self) -> u64 {
        self.memory().last.map_or(0, |last| last.index + 1)
    }

    /// The last leader, or who wants to be, that this member has heard of, and the index after the last entry.
    pub(crate) fn reach(&self) -> (Option<LeaderId>, u64) {
        let memory = self.memory();
        (memory.vote.map(|vote| vote.leader_id), memory.last.map_or(0, |last| last.index + 1))
    }

    /// Whether the disk is full, so that what is ordered now waits until it is not.
    pub(crate) fn is_full(&self) -> bool {
        self.memory().full
    }

    /// Why it can no longer be written.
    pub(crate) fn failure(&self) -> Option<String> {
        self.memory().failure.clone()
    }

    /// The last entry that may be given up so that segments of so many bytes stay as `kept` says, if that gives up any.
    /// `lagging`: members that live have only what is below this index.
    pub(crate) fn can_purge(&self, kept: LogKept, lagging: Option<u64>) -> Option<u64> {
        let all = disk::lock(&self.segments);
        let mut after: u64 = all.iter().map(|segment| segment.bytes).sum();
        let mut upto = None;
        for segment in all.iter().take(all.len().saturating_sub(1)) {
            after -= segment.bytes;
            let is_lacked = lagging.is_some_and(|next| next < segment.next());
            if after < (if is_lacked { kept.for_lagging } else { kept.always }) {
                break;
            }
            upto = segment.next().checked_sub(1);
        }
        upto.filter(|upto| self.memory().purged.is_none_or(|purged| *upto > purged.index))
    }

    /// Makes the segment that will be needed next, if it is not there. Takes milliseconds.
    pub(crate) fn keep_spare(&self) {
        let half_full = disk::lock(&self.segments).last().is_some_and(|s| s.end > s.bytes / 2);
        if half_full && let Err(error) = segments::keep_spare(&self.place) {
            // The next segment is then made when it is needed, and what fails there is said there.
            tracing::debug!(%error, "no spare log segment");
        }
    }

    /// Entries from `start`, or the first that there is, up to `end`; not all of them where they carry much data, but one
    /// at least if there is one.
    fn read(&self, start: u64, end: u64, bytes_max: usize) -> io::Result<Vec<Entry>> {
        let (mut out, mut bytes) = (Vec::new(), 0);
        let on_disk = disk::lock(&self.segments).first().filter(|s| s.records > 0).map(|s| s.first);
        let (recent, purged, after_last) = {
            let memory = self.memory();
            let after = |id: Option<LogId>| id.map_or(0, |id| id.index + 1);
            (memory.first_recent(), after(memory.purged), after(memory.last))
        };
        // What was cut is on disk until the thread has come to it.
        let end = end.min(after_last);
        // A segment that is given up in part still has all of it.
        let first = on_disk.into_iter().chain(recent).min().map(|first| first.max(purged));
        let mut next = first.map_or(end, |first| first.max(start));
        while next < end && bytes < bytes_max {
            if self.read_recent(next, end, bytes_max - bytes, &mut out) {
                break;
            }
            let Some(segment) = self.segment_of(next) else { break };
            let (mut at, mut index) = segment.near(next);
            let start = at;
            let raw = disk::read(&*self.place.files, &segment, at, segment.end)?;
            while index < segment.next() && next < end && bytes < bytes_max {
                let found = record::decode(&raw[(at - start) as usize..], segment.salt)
                    .filter(|r| r.entry.log_id.index == index);
                let Some(found) = found else {
                    let path = segment.path.clone();
                    return Err(io::Error::other(LogError::Damaged { path, index }));
                };
                at += found.len as u64;
                index += 1;
                if found.entry.log_id.index == next {
                    next += 1;
                    bytes += data_bytes(&found.entry);
                    out.push(found.entry);
                }
            }
        }
        Ok(out)
    }

    /// The same from memory; false if `start` is not there, and may be on disk.
    fn read_recent(&self, start: u64, end: u64, bytes_max: usize, out: &mut Vec<Entry>) -> bool {
        let memory = self.memory();
        let Some(first) = memory.first_recent().filter(|first| *first <= start) else { return false };
        let mut bytes = 0;
        for entry in memory.recent.range((start - first).min(memory.recent.len() as u64) as usize..) {
            if entry.log_id.index >= end || bytes >= bytes_max {
                break;
            }
            bytes += data_bytes(entry);
            out.push(entry.clone());
        }
        true
    }

    fn segment_of(&self, index: u64) -> Option<segments::Segment> {
        let all = disk::lock(&self.segments);
        all.iter().find(|segment| (segment.first..segment.next()).contains(&index)).cloned()
    }
}

impl RaftLogReader<Types> for Log {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, io::Error> {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(start) => start + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(end) => end + 1,
            Bound::Excluded(end) => *end,
            Bound::Unbounded => u64::MAX,
        };
        self.read(start, end, usize::MAX)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, io::Error> {
        self.read(start, end, SEND_BYTES_MAX)
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        Ok(self.memory().vote)
    }
}

impl RaftLogStorage<Types> for Log {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, io::Error> {
        let memory = self.memory();
        Ok(LogState { last_purged_log_id: memory.purged, last_log_id: memory.last })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        let (done, saved) = oneshot::channel();
        self.ask(Job::Vote(*vote, done))?;
        self.memory().vote = Some(*vote);
        let outcome = saved.await.map_err(|_| io::Error::other("the thread of the log ended"))?;
        outcome.map_err(io::Error::other)
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<Entry> = entries.into_iter().collect();
        {
            let mut memory = self.memory();
            entries.iter().for_each(|entry| memory.push(entry.clone()));
            memory.shrink();
        }
        self.ask(Job::Append(entries, callback))
    }

    async fn truncate_after(&mut self, last_log_id: Option<LogId>) -> Result<(), io::Error> {
        {
            let mut memory = self.memory();
            let next = last_log_id.map_or(0, |last| last.index + 1);
            if memory.last.is_none_or(|last| last.index < next) {
                return Ok(());
            }
            while let Some(entry) = memory.recent.pop_back_if(|entry| entry.log_id.index >= next) {
                memory.recent_bytes -= data_bytes(&entry);
            }
            memory.last = last_log_id;
            // What said who belongs to the group may be gone: until the next entry says it, nobody is alone.
            memory.only_voter = None;
            memory.written = memory.written.min(next);
            memory.cuts.push_back(next);
        }
        self.ask(Job::Truncate(last_log_id))
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), io::Error> {
        {
            let mut memory = self.memory();
            while let Some(entry) = memory.recent.pop_front_if(|entry| entry.log_id.index <= log_id.index) {
                memory.recent_bytes -= data_bytes(&entry);
            }
            memory.purged = Some(log_id);
            memory.last = memory.last.max(Some(log_id));
        }
        self.ask(Job::Purge(log_id))
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::time::Duration;

    use namespace::{Command, InodeId, Proposal, Stamp};

    use super::*;
    use crate::types::{Change, LeaderId};

    fn id(term: u64, index: u64) -> LogId {
        LogId { leader_id: LeaderId { term, node_id: 1 }, index }
    }

    fn with_entries(dir: &Path, term: u64, count: u64) {
        let mut disk = Disk::open(Place::local(dir), |_| {}).unwrap();
        let entries = (0..count).map(|index| Entry { log_id: id(term, index), payload: Payload::Blank });
        disk.append(&entries.collect::<Vec<_>>()).unwrap();
    }

    /// The store is at 100 by a snapshot, and the log was not purged yet.
    /// A store that has all up to entry 100.
    fn held(installed: Option<LogId>) -> Held {
        Held { last: Some(id(3, 100)), installed, written: None }
    }

    #[test]
    fn a_store_that_came_to_the_disk_before_the_last_of_the_log_is_not_taken_for_damage() {
        for (written, count, is_behind) in
            [(90, 95, true), (95, 95, true), (96, 95, false), (0, 0, true), (1, 0, false)]
        {
            let dir = tempfile::tempdir().unwrap();
            with_entries(dir.path(), 3, count);
            let ground = Ground::default();
            let opened = Log::open(&ground, dir.path(), Held { written: Some(written), ..held(None) });
            match opened.err().unwrap() {
                LogError::Behind => assert!(is_behind, "{written} of {count}"),
                error => assert!(!is_behind, "{written} of {count}: {error}"),
            }
        }
    }

    #[test]
    fn a_crash_between_a_snapshot_and_the_purge_of_the_log_is_not_taken_for_damage() {
        for (term, count) in [(1, 5), (1, 0), (1, 150)] {
            let dir = tempfile::tempdir().unwrap();
            with_entries(dir.path(), term, count);
            let ground = Ground::default();
            if count < 100 {
                let without = Log::open(&ground, dir.path(), held(None));
                assert!(matches!(without.err().unwrap(), LogError::Damaged { .. }), "nobody says why");
                let older = Log::open(&ground, dir.path(), held(Some(id(3, 50))));
                assert!(matches!(older.err().unwrap(), LogError::Damaged { .. }), "it went on after that");
            }
            let log = Log::open(&ground, dir.path(), held(Some(id(3, 100)))).unwrap();
            assert_eq!(log.memory().purged, Some(id(3, 100)));
            assert_eq!((log.next(), log.written(), log.memory().recent.len()), (101, 101, 0), "{count}");
            log.close().expect("it runs").join();
            let log = Log::open(&ground, dir.path(), held(Some(id(3, 100)))).unwrap();
            assert_eq!(log.next(), 101);
            log.close().expect("it runs").join();
        }
    }

    #[test]
    fn entries_that_follow_a_snapshot_stay_when_the_log_was_not_purged() {
        let dir = tempfile::tempdir().unwrap();
        with_entries(dir.path(), 3, 150);
        let log = Log::open(&Ground::default(), dir.path(), held(Some(id(3, 100)))).unwrap();
        assert_eq!((log.next(), log.memory().purged), (150, None));
        log.close().expect("it runs").join();
    }

    #[test]
    fn what_a_member_that_lags_lacks_is_kept_for_longer() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place { segment_bytes: 4096, ..Place::local(dir.path()) };
        let mut disk = Disk::open(place, |_| {}).unwrap();
        for index in 0..1000 {
            disk.append(&[Entry { log_id: id(1, index), payload: Payload::Blank }]).unwrap();
        }
        drop(disk);
        let ground = Ground { segment_bytes: 4096, ..Ground::default() };
        let held = Held { last: Some(id(1, 999)), installed: None, written: None };
        let log = Log::open(&ground, dir.path(), held).unwrap();
        let kept = LogKept { always: 8 << 10, for_lagging: 24 << 10 };
        let upto = |lagging| log.can_purge(kept, lagging);
        let usual = upto(None).expect("there is more than that");
        assert_eq!(upto(Some(usual + 1)), Some(usual), "it lacks nothing that goes");
        let bound = upto(Some(0)).expect("there is more than that, too");
        assert!(bound < usual, "{bound} of {usual}");
        let between = upto(Some(usual - 10)).expect("what it has may go");
        assert!((bound..usual - 10).contains(&between), "{bound} {between} {usual}");
        log.close().expect("it runs").join();
    }

    fn large(index: u64) -> Entry {
        let (inode, data) = (InodeId(3), vec![7; 60 << 10].into());
        let command = Command::WriteInline { inode, offset: 0, data };
        let proposal = Proposal { stamp: Stamp::default(), origin: None, command };
        Entry { log_id: id(1, index), payload: Payload::Normal(Change(Arc::new(proposal))) }
    }

    #[test]
    fn a_batch_that_begins_on_disk_and_ends_in_memory_is_not_too_long() {
        let dir = tempfile::tempdir().unwrap();
        let ground = Ground { segment_bytes: 256 << 10, ..Ground::default() };
        let place = Place { segment_bytes: ground.segment_bytes, ..Place::local(dir.path()) };
        let mut disk = Disk::open(place, |_| {}).unwrap();
        (0..16).for_each(|index| disk.append(&[large(index)]).unwrap());
        drop(disk);
        let held = Held { last: Some(id(1, 15)), installed: None, written: None };
        let log = Log::open(&ground, dir.path(), held).unwrap();
        let second = disk::lock(&log.segments)[1].first;
        assert!(second > 1);
        log.memory().recent.drain(..second as usize);
        let batch = log.read(0, 16, SEND_BYTES_MAX).unwrap();
        assert!(batch.len() as u64 > second, "some are from memory");
        let bytes: usize = batch.iter().map(data_bytes).sum();
        assert!(bytes < SEND_BYTES_MAX + (64 << 10), "{bytes} bytes");
        log.close().expect("it runs").join();
    }

    #[tokio::test]
    async fn what_was_cut_while_it_was_being_written_does_not_count_as_written() {
        let dir = tempfile::tempdir().unwrap();
        let ground = Ground { pace: Some(Arc::new(|| Duration::ZERO)), ..Ground::default() };
        let mut log = Log::open(&ground, dir.path(), Held::default()).unwrap();
        let entries = |term, indices: Range<u64>| {
            indices.map(move |index| Entry { log_id: id(term, index), payload: Payload::Blank })
        };
        // The thread comes to none of it before all of it was asked for.
        log.append(entries(1, 0..10), IOFlushed::noop()).await.unwrap();
        log.truncate_after(Some(id(1, 4))).await.unwrap();
        log.append(entries(2, 5..8), IOFlushed::noop()).await.unwrap();
        log.truncate_after(Some(id(2, 6))).await.unwrap();
        let mut seen = vec![];
        while !log.memory().cuts.is_empty() {
            tokio::task::yield_now().await;
            seen.push(log.written());
        }
        seen.dedup();
        assert!(seen.is_sorted() && seen.contains(&5), "{seen:?}");
        assert_eq!((log.written(), log.next()), (7, 7), "{seen:?}");
        log.append(entries(3, 7..9), IOFlushed::noop()).await.unwrap();
        log.close().expect("it runs").ended().await;
        assert_eq!(log.written(), 9);
    }
}
