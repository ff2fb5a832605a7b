//! Writer of the log, on a thread of its own (a task in a simulation): it takes all waiting jobs, syncs once
//! for them, and calls their callbacks in order.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use openraft::storage::IOFlushed;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use crate::environment::{BlockingRunner, DiskDelay, RunningTask};
use crate::log::disk::Disk;
use crate::log::segments::LogDir;
use crate::log::{LogError, Memory, vote};
use crate::metrics::ReplicaMetrics;
use crate::types::{Entry, LogId, Types, Vote};

/// Entries in one batch: bounds the wait of its first entry for its last.
const BATCH_MAX: usize = 1024;
/// Bytes of data in one batch: bounds the same wait, and the memory and the segment that a batch takes.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// Retry interval while the disk is full.
const NO_SPACE_RETRY: Duration = Duration::from_millis(200);

/// Job of the writer; jobs are done in order.
pub(crate) enum Job {
    Append(Vec<Entry>, IOFlushed<Types>),
    Vote(Vote, oneshot::Sender<Result<(), String>>),
    /// Removes the entries after this one.
    Truncate(Option<LogId>),
    /// Purges the entries up to this one.
    Purge(LogId),
    /// Last job: closes the log.
    Close,
}

/// State of the writer.
pub(crate) struct Writer {
    pub log_dir: LogDir,
    pub disk: Disk,
    pub memory: Arc<Mutex<Memory>>,
    /// Reason that the log can no longer be written; each later job fails with it.
    pub failure: Option<String>,
    pub metrics: Arc<ReplicaMetrics>,
}

impl Writer {
    /// Does one job, together with those of `more` that fit. Returns a job that does not fit; `Close` if that
    /// was the job.
    fn step(&mut self, job: Job, more: &mut dyn FnMut() -> Option<Job>) -> Option<Job> {
        let mut waiting = None;
        let outcome = match &self.failure {
            Some(reason) => Err(reason.clone()),
            None => Ok(()),
        };
        let outcome = match job {
            Job::Append(entries, callback) => {
                let mut batch = Batch { entries, callbacks: vec![callback] };
                waiting = batch.gather(more);
                let outcome = outcome
                    .and_then(|()| bounded_writes(&batch.entries).try_for_each(|part| self.append(part)));
                call_back(batch.callbacks, &outcome);
                outcome
            }
            Job::Vote(vote, done) => {
                let outcome = outcome.and_then(|()| {
                    vote::write(&*self.log_dir.files, &self.log_dir.dir, &vote).map_err(|e| e.to_string())
                });
                let _ = done.send(outcome.clone());
                outcome
            }
            Job::Truncate(last) => {
                let outcome = outcome.and_then(|()| self.disk.truncate(last).map_err(|e| e.to_string()));
                Memory::lock(&self.memory).truncations.pop_front();
                outcome
            }
            Job::Close => return Some(Job::Close),
            Job::Purge(upto) => outcome.and_then(|()| self.disk.purge(upto).map_err(|e| e.to_string())),
        };
        if let Err(reason) = outcome
            && self.failure.is_none()
        {
            tracing::error!(%reason, "cannot write the metadata log, this metaserver stops: check its disk, then start it again");
            Memory::lock(&self.memory).failure = Some(reason.clone());
            self.failure = Some(reason);
        }
        waiting
    }

    /// Appends entries; waits while the disk is full, since ordered commands cannot be refused any more.
    fn append(&mut self, entries: &[Entry]) -> Result<(), String> {
        let began = Instant::now();
        loop {
            match self.disk.append(entries) {
                Ok(()) => break,
                Err(LogError::NoSpace(dir)) => {
                    let full = std::mem::replace(&mut Memory::lock(&self.memory).full, true);
                    if !full {
                        tracing::error!(dir = %dir.display(), "no space for the metadata log, changes are refused: free space on this disk");
                    }
                    if Memory::lock(&self.memory).stopping {
                        return Err("stopped while the disk was full".into());
                    }
                    std::thread::sleep(NO_SPACE_RETRY);
                }
                Err(e) => return Err(e.to_string()),
            }
        }
        self.metrics.log_sync.observe(began.elapsed().as_secs_f64());
        let mut memory = Memory::lock(&self.memory);
        if std::mem::take(&mut memory.full) {
            tracing::info!("the metadata log has space again");
        }
        if let Some(last) = entries.last() {
            // An entry that a waiting job truncates is not part of the log any more.
            let lowest_truncation = memory.truncations.iter().min().copied().unwrap_or(u64::MAX);
            memory.written = lowest_truncation.min(last.log_id.index + 1);
        }
        Ok(())
    }
}

/// Splits `entries` into bounded writes: one append of openraft may have thousands. A sound record behind a
/// damaged one is found only within a bound, and proves that the damaged one was on disk only if it was
/// written later.
fn bounded_writes(entries: &[Entry]) -> impl Iterator<Item = &[Entry]> {
    let mut rest = entries;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = rest.iter().take_while(|entry| {
            let before = bytes;
            bytes += super::data_bytes(entry);
            before < BATCH_BYTES_MAX
        });
        let (part, later) = rest.split_at(fits.count().min(BATCH_MAX));
        rest = later;
        Some(part).filter(|part| !part.is_empty())
    })
}

/// Calls the callbacks of one write. openraft's marks of progress on disk are reduced to the last one: each
/// wakes its thread.
fn call_back(callbacks: Vec<IOFlushed<Types>>, outcome: &Result<(), String>) {
    let is_mark = |callback: &IOFlushed<Types>| matches!(callback, IOFlushed::Notify(_));
    let last_mark = callbacks.iter().rposition(is_mark);
    for (number, callback) in callbacks.into_iter().enumerate() {
        if !is_mark(&callback) || Some(number) == last_mark {
            callback.io_completed(outcome.clone().map_err(io::Error::other));
        }
    }
}

/// Appends that become one write.
struct Batch {
    entries: Vec<Entry>,
    callbacks: Vec<IOFlushed<Types>>,
}

impl Batch {
    /// Adds all waiting appends that fit; returns a job that does not.
    fn gather(&mut self, more: &mut dyn FnMut() -> Option<Job>) -> Option<Job> {
        let mut bytes: usize = self.entries.iter().map(super::data_bytes).sum();
        while self.entries.len() < BATCH_MAX && bytes < BATCH_BYTES_MAX {
            match more() {
                Some(Job::Append(entries, callback)) => {
                    bytes += entries.iter().map(super::data_bytes).sum::<usize>();
                    self.entries.extend(entries);
                    self.callbacks.push(callback);
                }
                other => return other,
            }
        }
        None
    }
}

/// Queue of the writer's jobs.
#[derive(Clone)]
pub(crate) enum JobQueue {
    Thread(SyncSender<Job>),
    /// Unbounded: openraft has few jobs in flight, and a task must not block another.
    Task(mpsc::UnboundedSender<Job>),
}

impl JobQueue {
    pub(crate) fn send(&self, job: Job) -> io::Result<()> {
        let asked = match self {
            JobQueue::Thread(jobs) => jobs.send(job).map_err(drop),
            JobQueue::Task(jobs) => jobs.send(job).map_err(drop),
        };
        asked.map_err(|()| io::Error::other("the log's thread has ended"))
    }
}

/// Starts the writer; returns its queue.
pub(crate) fn start(
    writer: Writer,
    queue: usize,
    runner: &BlockingRunner,
) -> io::Result<(JobQueue, RunningTask)> {
    match &runner.0 {
        None => start_thread(writer, queue),
        Some(disk_delay) => Ok(start_task(writer, Arc::clone(disk_delay))),
    }
}

fn start_thread(mut writer: Writer, queue: usize) -> io::Result<(JobQueue, RunningTask)> {
    let (ask, jobs) = std::sync::mpsc::sync_channel(queue);
    let run = move || {
        let mut waiting = None;
        while let Some(job) = waiting.take().or_else(|| jobs.recv().ok()) {
            waiting = writer.step(job, &mut || jobs.try_recv().ok());
            if let Some(Job::Close) = waiting {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("log".into()).spawn(run)?;
    Ok((JobQueue::Thread(ask), RunningTask::Thread(thread)))
}

fn start_task(mut writer: Writer, disk_delay: DiskDelay) -> (JobQueue, RunningTask) {
    let (ask, mut jobs) = mpsc::unbounded_channel();
    let task = tokio::spawn(async move {
        let mut waiting = None;
        loop {
            let job = match waiting.take() {
                Some(job) => Some(job),
                None => jobs.recv().await,
            };
            let Some(job) = job else { return };
            tokio::time::sleep(disk_delay()).await;
            waiting = writer.step(job, &mut || jobs.try_recv().ok());
            if let Some(Job::Close) = waiting {
                return;
            }
        }
    });
    (JobQueue::Task(ask), RunningTask::Task(task))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use namespace::{Command, InodeId, Proposal, Stamp};

    use super::*;
    use crate::types::{Change, LeaderId, Payload};

    fn entry(index: u64, name_bytes: usize) -> Entry {
        let (dir, to) = (InodeId::ROOT, vec![b'n'; name_bytes]);
        let command = Command::Rename { from_dir: dir, from: vec![], to_dir: dir, to };
        let change = Change(Arc::new(Proposal::new(Stamp::default(), None, command)));
        let log_id = LogId { leader_id: LeaderId { term: 1, node_id: 1 }, index };
        Entry { log_id, payload: Payload::Normal(change) }
    }

    #[test]
    fn what_consensus_appends_at_once_is_written_in_parts_that_are_not_too_long() {
        let all: Vec<Entry> = (0..200).map(|index| entry(index, 64 << 10)).collect();
        let lengths: Vec<usize> = bounded_writes(&all).map(<[Entry]>::len).collect();
        assert_eq!(lengths.iter().sum::<usize>(), 200);
        assert!(
            lengths.len() > 2 && lengths.iter().all(|len| len * (64 << 10) <= BATCH_BYTES_MAX + (64 << 10))
        );
        let small: Vec<Entry> = (0..3000).map(|index| entry(index, 1)).collect();
        assert!(bounded_writes(&small).all(|part| part.len() <= BATCH_MAX));
        assert_eq!(bounded_writes(&small).flatten().count(), 3000);
        let one = [entry(0, 2 * BATCH_BYTES_MAX)];
        assert_eq!(bounded_writes(&one).map(<[Entry]>::len).collect::<Vec<_>>(), [1]);
        assert_eq!(bounded_writes(&[]).count(), 0);
    }
}
