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

mod disk;
mod reading;
pub(crate) mod record;
mod segments;
mod tail;
mod truncation;
mod vote;
mod writer;

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openraft::OptionalSend;
use openraft::storage::{IOFlushed, LogState, RaftLogStorage};
use thiserror::Error;
use tokio::sync::oneshot;

use disk::{Disk, Segments};
use segments::LogDir;
use writer::{Job, JobQueue, Writer};

use crate::environment::{BlockingRunner, Environment, LogRetention, RunningTask};
use crate::metrics::ReplicaMetrics;
use crate::types::{Entry, LeaderId, LogId, Membership, Payload, Types, Vote};

/// The log's directory, in the member's.
pub(crate) const DIR: &str = "log";
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
    /// It has an entry of a newer version. Nothing of the log was changed.
    #[error(
        "{path}: entry {index} was written by a newer version of heorot, which this one does not understand: install the version \
         of the others"
    )]
    Newer {
        /// The segment.
        path: PathBuf,
        /// The entry's index.
        index: u64,
    },
    /// Written in a form that is no longer read.
    #[error("{0}: written by an earlier version of heorot, which this one cannot read")]
    Older(PathBuf),
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LogError {
    move |source| LogError::Io { doing, path: path.to_owned(), source }
}

/// Saves the vote of a member that has no log yet, in its directory `dir`: it has one before its first entry.
pub(crate) fn write_first_vote(environment: &Environment, dir: &Path, vote: &Vote) -> Result<(), LogError> {
    let dir = dir.join(DIR);
    environment.files.make_dir(&dir).map_err(failed("create", &dir))?;
    vote::write(&*environment.files, &dir, vote)
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
    /// First indices of the truncations that wait in the queue, in its order.
    truncations: VecDeque<u64>,
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
pub(crate) struct StoreState {
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
    log_dir: LogDir,
    memory: Arc<Mutex<Memory>>,
    segments: Segments,
    jobs: JobQueue,
    running: Arc<Mutex<Option<RunningTask>>>,
    pub metrics: Arc<ReplicaMetrics>,
}

impl Log {
    /// Opens the log in `dir`, for a store that is as `store_state` says. Entries that the store does not have are kept in memory, to
    /// be applied again.
    ///
    /// # Errors
    /// [`LogError`]; when entries are missing that are not in the store either, it is damaged.
    pub(crate) fn open(
        environment: &Environment,
        dir: &Path,
        store_state: StoreState,
    ) -> Result<Self, LogError> {
        let StoreState { last, installed, written } = store_state;
        let applied = last.map_or(0, |last| last.index + 1);
        let (files, segment_bytes) = (Arc::clone(&environment.files), environment.segment_bytes);
        let entropy = Arc::clone(&environment.entropy);
        let log_dir = LogDir { files, entropy, dir: dir.to_owned(), segment_bytes };
        let mut memory = Memory { applied, ..Memory::default() };
        let mut other = false;
        let mut disk = Disk::open(log_dir.clone(), |entry| {
            other |= installed.is_some_and(|at| at.index == entry.log_id.index && at != entry.log_id);
            memory.push(entry);
            memory.written = memory.last.map_or(0, |last| last.index + 1);
            memory.shrink();
        })?;
        memory.vote = vote::read(&*log_dir.files, dir)?;
        if let Some(vote) = &memory.vote {
            // One that was being written when the process was killed may be in the page cache only, or in one copy; this
            // member goes on as if it were on disk.
            vote::write(&*log_dir.files, dir, vote)?;
        }
        // A crash came between a snapshot and the log's purge: what is in the log is not needed, or was never committed.
        let installed = installed.filter(|at| at.index + 1 == applied);
        let after_snapshot = installed.filter(|_| other || disk.next() < applied);
        if let Some(at) = after_snapshot {
            disk.restart_after(at)?;
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
        let metrics = Arc::<ReplicaMetrics>::default();
        let writer = Writer {
            log_dir: log_dir.clone(),
            disk,
            memory: Arc::clone(&memory),
            failure: None,
            metrics: Arc::clone(&metrics),
        };
        let runner = BlockingRunner(environment.disk_delay.clone());
        let started = writer::start(writer, QUEUE_MAX, &runner).map_err(failed("start a thread for", dir));
        let (jobs, running) = started?;
        let running = Arc::new(Mutex::new(Some(running)));
        Ok(Self { log_dir, memory, segments, jobs, running, metrics })
    }

    /// What there is no room for fails from here on: consensus may be waiting for a vote that waits behind it, and cannot
    /// end before.
    pub(crate) fn stop_waiting(&self) {
        self.memory().stopping = true;
    }

    /// Has what waits written; then nothing can be appended any more. Returns what is to be waited for.
    #[must_use]
    pub(crate) fn close(&self) -> Option<RunningTask> {
        self.stop_waiting();
        let _ = self.jobs.send(Job::Close);
        self.running.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        Memory::lock(&self.memory)
    }

    fn send(&self, job: Job) -> io::Result<()> {
        self.jobs.send(job)
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
    pub(crate) fn set_store_members(&self, membership: &Membership) {
        let mut memory = self.memory();
        if !memory.members_known {
            memory.note_members(membership);
        }
    }

    /// Entries below this index are on disk.
    pub(crate) fn written(&self) -> u64 {
        self.memory().written
    }

    /// Entries below this index are on disk, or were given up since the store is.
    pub(crate) fn durable(&self) -> u64 {
        let memory = self.memory();
        memory.written.max(memory.purged.map_or(0, |purged| purged.index + 1))
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

    /// Whether the vote is missing, or older than what is in the log or in the store: a member votes before it takes entries
    /// of a term. The founder's first entry is of no term. `applied`: the last entry that the store has.
    pub(crate) fn lost_its_vote(&self, applied: Option<LogId>) -> bool {
        let memory = self.memory();
        let term = memory.last.max(applied).map_or(0, |last| last.leader_id.term);
        memory.vote.map_or(0, |vote| vote.leader_id.term) < term
    }

    /// Why it can no longer be written.
    pub(crate) fn failure(&self) -> Option<String> {
        self.memory().failure.clone()
    }

    /// The last entry that may be given up so that segments of so many bytes stay as `retention` says, if that gives up any.
    /// `lagging`: members that live have only what is below this index.
    pub(crate) fn can_purge(&self, retention: LogRetention, lagging: Option<u64>) -> Option<u64> {
        let all = disk::lock(&self.segments);
        let mut after: u64 = all.iter().map(|segment| segment.bytes).sum();
        let mut upto = None;
        for segment in all.iter().take(all.len().saturating_sub(1)) {
            after -= segment.bytes;
            let is_lacked = lagging.is_some_and(|next| next < segment.next());
            if after < (if is_lacked { retention.for_lagging_members } else { retention.always }) {
                break;
            }
            upto = segment.next().checked_sub(1);
        }
        upto.filter(|upto| self.memory().purged.is_none_or(|purged| *upto > purged.index))
    }

    /// Makes the segment that will be needed next, if it is not there. Takes milliseconds.
    pub(crate) fn keep_spare(&self) {
        let half_full = disk::lock(&self.segments).last().is_some_and(|s| s.end > s.bytes / 2);
        if half_full && let Err(error) = segments::keep_spare(&self.log_dir) {
            // The next segment is then made when it is needed, and what fails there is said there.
            tracing::debug!(%error, "no spare log segment");
        }
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
        self.send(Job::Vote(*vote, done))?;
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
        self.send(Job::Append(entries, callback))
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
            memory.truncations.push_back(next);
        }
        self.send(Job::Truncate(last_log_id))
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
        self.send(Job::Purge(log_id))
    }
}

#[cfg(test)]
mod tests;
