//! Log of this member: its entries in memory and on disk, for ordering, sending and applying them.
//!
//! ```text
//! append ─▶ memory: recent entries ─▶ queue ─▶ one thread: drain, write, one sync ─▶ callbacks, in order
//!                │                              vote, truncate, purge go the same way
//!                └─▶ read: recent ones from memory, older ones from the segments
//! ```
//!
//! An entry can be read as soon as `append` returns; it is durable once its callback was called. Entries stay
//! in memory until they are applied and on disk, and longer while they fit.

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
use std::sync::Arc;

use openraft::OptionalSend;
use openraft::storage::{IOFlushed, LogState, RaftLogStorage};
use parking_lot::{Mutex, MutexGuard};
use thiserror::Error;
use tokio::sync::oneshot;

use disk::{Disk, Segments};
use segments::LogDir;
use writer::{Job, JobQueue, Writer};

use crate::environment::{BlockingRunner, Environment, LogRetention, RunningTask};
use crate::metrics::ReplicaMetrics;
use crate::types::{Entry, LeaderId, LogId, Membership, Payload, Types, Vote};

/// Directory of the log, in the member's directory.
pub(crate) const DIR: &str = "log";
/// Entries kept in memory beyond the needed ones, for a follower that lags a little.
const RECENT_MAX: usize = 8192;
/// Bytes of data of the entries kept in memory.
const RECENT_BYTES_MAX: usize = 16 << 20;
/// Bytes of data in one batch to a follower; with headers the batch must fit into a record of our RPC.
const SEND_BYTES_MAX: usize = 512 << 10;
/// Jobs that wait for the log's thread. openraft has far fewer in flight.
const QUEUE_MAX: usize = 16_384;

/// Error of the log: says what was being done to which file.
#[derive(Debug, Error)]
pub enum LogError {
    /// The operating system returned an error.
    #[error("{doing} {path}: {source}")]
    Io {
        /// Operation that failed.
        doing: &'static str,
        /// File of the operation.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// No space for another segment; nothing was written.
    #[error("no space for the log in {0}: free some, or move the data directory to a larger disk")]
    NoSpace(PathBuf),
    /// Damage in a part of the log that was acknowledged.
    #[error(
        "{path}: record {index} is damaged or missing: restore the metadata from a backup, or have it join others as a new member"
    )]
    Damaged {
        /// Segment with the damage.
        path: PathBuf,
        /// Index of the entry that should be there.
        index: u64,
    },
    /// The store is ahead of the log: a crash came after the store was written and before its last entries
    /// were, so they were never acknowledged. The log goes on after the store, as after a snapshot.
    #[error("the store is ahead of the log")]
    Behind,
    /// Both copies of the vote are damaged.
    #[error("{0}: damaged: restore the metadata from a backup, or have it join others as a new member")]
    DamagedVote(PathBuf),
    /// The log has an entry of a newer version. Nothing of the log was changed.
    #[error(
        "{path}: entry {index} was written by a newer version of heorot, which this one does not understand: install the version \
         of the others"
    )]
    Newer {
        /// Segment with the entry.
        path: PathBuf,
        /// Index of the entry.
        index: u64,
    },
    /// The log has a format that is no longer read.
    #[error("{0}: written by an earlier version of heorot, which this one cannot read")]
    Older(PathBuf),
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LogError {
    move |source| LogError::Io { doing, path: path.to_owned(), source }
}

/// Saves the first vote of a member in its directory `dir`, before the log has an entry.
pub(crate) fn write_first_vote(environment: &Environment, dir: &Path, vote: &Vote) -> Result<(), LogError> {
    let dir = dir.join(DIR);
    environment.files.make_dir(&dir).map_err(failed("create", &dir))?;
    vote::write(&*environment.files, &dir, vote)
}

/// State of the log that is known without reading the disk.
#[derive(Default)]
pub(crate) struct Memory {
    /// Last entries of the log, without a gap.
    recent: VecDeque<Entry>,
    recent_bytes: usize,
    last: Option<LogId>,
    purged: Option<LogId>,
    vote: Option<Vote>,
    /// Entries below this index are on disk.
    written: u64,
    /// Entries below this index are applied.
    applied: u64,
    /// The only voter, if the last membership entry has one voter.
    only_voter: Option<u64>,
    /// True if a membership entry that this process has seen has several members, learners too.
    had_others: bool,
    members_known: bool,
    /// First indices of the truncations that wait in the queue, in its order.
    truncations: VecDeque<u64>,
    full: bool,
    /// The replica is stopping: a wait for space ends.
    stopping: bool,
    failure: Option<String>,
}

impl Memory {
    fn lock(memory: &Mutex<Memory>) -> MutexGuard<'_, Memory> {
        memory.lock()
    }

    fn push(&mut self, entry: Entry) {
        self.last = Some(entry.log_id);
        if let Payload::Membership(membership) = &entry.payload {
            // A membership entry counts as soon as it is in the log, before it is committed (Raft, section
            // 6).
            self.note_members(membership);
        }
        self.recent_bytes += data_bytes(&entry);
        self.recent.push_back(entry);
    }

    fn note_members(&mut self, membership: &Membership) {
        let mut voters = membership.voter_ids();
        self.only_voter = voters.next().filter(|_| voters.next().is_none());
        self.had_others |= membership.nodes().count() > 1;
        self.members_known = true;
    }

    /// Drops entries from memory that are not needed soon.
    fn shrink(&mut self) {
        let needed_from = self.written.min(self.applied);
        while self.recent.len() > RECENT_MAX || self.recent_bytes > RECENT_BYTES_MAX {
            let Some(entry) = self.recent.pop_front_if(|entry| entry.log_id.index < needed_from) else {
                return;
            };
            self.recent_bytes -= data_bytes(&entry);
        }
    }

    /// Index of the first entry in memory.
    fn first_recent(&self) -> Option<u64> {
        self.recent.front().map(|entry| entry.log_id.index)
    }
}

/// Approximate size of an entry on disk and on the network.
fn data_bytes(entry: &Entry) -> usize {
    match &entry.payload {
        Payload::Normal(change) => postcard::experimental::serialized_size(&*change.0).unwrap_or(0),
        Payload::Blank | Payload::Membership(_) => 0,
    }
}

/// State of the store, from which the log goes on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StoreState {
    /// Last applied entry.
    pub last: Option<LogId>,
    /// Last entry of the snapshot that the store was installed from, if any.
    pub installed: Option<LogId>,
    /// Entries below this index were on disk when the store was in this state; the log may have had more.
    pub written: Option<u64>,
}

/// Handle on the log; clones share it.
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
    /// Opens the log in `dir`, for a store in the state `store_state`. Entries that the store lacks are kept
    /// in memory, to be applied again.
    ///
    /// # Errors [`LogError`]. Entries that neither the log nor the store has are damage.
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
            // A vote that a killed process was writing may be only in the page cache, or only in one copy;
            // this member relies on it, so it must be on disk.
            vote::write(&*log_dir.files, dir, vote)?;
        }
        // A crash came between a snapshot install and the purge of the log: the log's entries are not needed,
        // or were never committed.
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
                // The store lost entries that the log purged, or is ahead of the log: files were removed by
                // hand.
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

    /// Makes writes that wait for space fail from now on: consensus may be waiting for a vote behind such a
    /// write, and could not stop otherwise.
    pub(crate) fn stop_waiting(&self) {
        self.memory().stopping = true;
    }

    /// Writes all waiting jobs and closes the log. Returns the thread or task to join.
    #[must_use]
    pub(crate) fn close(&self) -> Option<RunningTask> {
        self.stop_waiting();
        let _ = self.jobs.send(Job::Close);
        self.running.lock().take()
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        Memory::lock(&self.memory)
    }

    fn send(&self, job: Job) -> io::Result<()> {
        self.jobs.send(job)
    }

    /// Entries below `next` are applied, and need not stay in memory.
    pub(crate) fn applied(&self, next: u64) {
        let mut memory = self.memory();
        memory.applied = next;
        memory.shrink();
    }

    /// The only voter, if there is one voter.
    pub(crate) fn only_voter(&self) -> Option<u64> {
        self.memory().only_voter
    }

    /// True if this member has had others in its group while this process ran.
    pub(crate) fn had_others(&self) -> bool {
        self.memory().had_others
    }

    /// Sets the membership that the store has; a membership in the log is newer and wins.
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

    /// Entries below this index are on disk, or were purged because the store has them.
    pub(crate) fn durable(&self) -> u64 {
        let memory = self.memory();
        memory.written.max(memory.purged.map_or(0, |purged| purged.index + 1))
    }

    /// Index after the last entry.
    pub(crate) fn next(&self) -> u64 {
        self.memory().last.map_or(0, |last| last.index + 1)
    }

    /// The last leader or candidate that this member knows, and the index after the last entry.
    pub(crate) fn reach(&self) -> (Option<LeaderId>, u64) {
        let memory = self.memory();
        (memory.vote.map(|vote| vote.leader_id), memory.last.map_or(0, |last| last.index + 1))
    }

    /// True if the disk is full, so that appended entries wait for space.
    pub(crate) fn is_full(&self) -> bool {
        self.memory().full
    }

    /// True if the vote is missing, or older than the last entry of the log or of the store (`applied`): a
    /// member votes before it takes entries of a term. The founder's first entry has no term.
    pub(crate) fn lost_its_vote(&self, applied: Option<LogId>) -> bool {
        let memory = self.memory();
        let term = memory.last.max(applied).map_or(0, |last| last.leader_id.term);
        memory.vote.map_or(0, |vote| vote.leader_id.term) < term
    }

    /// Reason that the log can no longer be written.
    pub(crate) fn failure(&self) -> Option<String> {
        self.memory().failure.clone()
    }

    /// Last entry that may be purged so that segments remain as `retention` says; None if nothing can be
    /// purged. `lagging`: some reachable members have only entries below this index.
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

    /// Creates the spare segment if it is missing. Takes milliseconds.
    pub(crate) fn keep_spare(&self) {
        let half_full = disk::lock(&self.segments).last().is_some_and(|s| s.end > s.bytes / 2);
        if half_full && let Err(error) = segments::keep_spare(&self.log_dir) {
            // The next segment is then created when it is needed; that call reports an error.
            tracing::debug!(%error, "cannot create the spare log segment");
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
        let outcome = saved.await.map_err(|_| io::Error::other("the log's thread has ended"))?;
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
            // The membership entry may be gone: until the next one, no voter is the only one.
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
