//! The one thread that writes the log: it drains what waits, syncs once for all of it, and calls back in order.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use openraft::storage::IOFlushed;
use tokio::sync::oneshot;

use crate::log::disk::Disk;
use crate::log::{LogError, Memory, vote};
use crate::types::{Entry, LogId, Types, Vote};

/// Entries in one batch: bounds how long its first waits for its last.
const BATCH_MAX: usize = 1024;
/// Bytes of small files' data in one batch: bounds the same, and the memory and the log segment that a batch takes.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// How often a full disk is tried again.
const NO_SPACE_RETRY: Duration = Duration::from_millis(200);

/// What is to be done, in this order.
pub(crate) enum Job {
    Append(Vec<Entry>, IOFlushed<Types>),
    Vote(Vote, oneshot::Sender<Result<(), String>>),
    /// Take away what is after this.
    Truncate(Option<LogId>),
    /// Give up what is at or before this.
    Purge(LogId),
    /// Nothing comes any more.
    Close,
}

/// The thread's own.
pub(crate) struct Writer {
    pub dir: PathBuf,
    pub disk: Disk,
    pub memory: Arc<Mutex<Memory>>,
}

impl Writer {
    /// Works until nobody asks any more, or until the disk fails: then everybody who asks is told why.
    pub(crate) fn run(mut self, jobs: Receiver<Job>) {
        let mut waiting = None;
        let mut failure: Option<String> = None;
        while let Some(job) = waiting.take().or_else(|| jobs.recv().ok()) {
            let outcome = match &failure {
                Some(reason) => Err(reason.clone()),
                None => Ok(()),
            };
            let outcome = match job {
                Job::Append(entries, callback) => {
                    let mut batch = Batch { entries, callbacks: vec![callback] };
                    waiting = batch.gather(&jobs);
                    let outcome = outcome.and_then(|()| self.append(&batch.entries));
                    batch.callbacks.into_iter().for_each(|callback| {
                        callback.io_completed(outcome.clone().map_err(std::io::Error::other));
                    });
                    outcome
                }
                Job::Vote(vote, done) => {
                    let outcome =
                        outcome.and_then(|()| vote::write(&self.dir, &vote).map_err(|e| e.to_string()));
                    let _ = done.send(outcome.clone());
                    outcome
                }
                Job::Truncate(last) => {
                    outcome.and_then(|()| self.disk.truncate(last).map_err(|e| e.to_string()))
                }
                Job::Close => return,
                Job::Purge(upto) => outcome.and_then(|()| self.disk.purge(upto).map_err(|e| e.to_string())),
            };
            if let Err(reason) = outcome
                && failure.is_none()
            {
                tracing::error!(%reason, "the metadata log fails");
                Memory::lock(&self.memory).failure = Some(reason.clone());
                failure = Some(reason);
            }
        }
    }

    /// Waits while the disk is full: what was ordered cannot be refused any more.
    fn append(&mut self, entries: &[Entry]) -> Result<(), String> {
        loop {
            match self.disk.append(entries) {
                Ok(()) => break,
                Err(LogError::NoSpace(dir)) => {
                    let full = std::mem::replace(&mut Memory::lock(&self.memory).full, true);
                    if !full {
                        tracing::error!(dir = %dir.display(), "no space for the log: free some; changes are refused");
                    }
                    if Memory::lock(&self.memory).closed {
                        return Err("stopped while the disk was full".into());
                    }
                    std::thread::sleep(NO_SPACE_RETRY);
                }
                Err(e) => return Err(e.to_string()),
            }
        }
        let mut memory = Memory::lock(&self.memory);
        if std::mem::take(&mut memory.full) {
            tracing::info!("there is space for the log again");
        }
        memory.written = entries.last().map(|entry| entry.log_id.index + 1).unwrap_or(memory.written);
        Ok(())
    }
}

/// Appends that become one write.
struct Batch {
    entries: Vec<Entry>,
    callbacks: Vec<IOFlushed<Types>>,
}

impl Batch {
    /// Takes all that waits and fits; returns a job that does not.
    fn gather(&mut self, jobs: &Receiver<Job>) -> Option<Job> {
        let mut bytes: usize = self.entries.iter().map(super::data_bytes).sum();
        while self.entries.len() < BATCH_MAX && bytes < BATCH_BYTES_MAX {
            match jobs.try_recv() {
                Ok(Job::Append(entries, callback)) => {
                    bytes += entries.iter().map(super::data_bytes).sum::<usize>();
                    self.entries.extend(entries);
                    self.callbacks.push(callback);
                }
                Ok(other) => return Some(other),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return None,
            }
        }
        None
    }
}

/// Starts the thread; returns where to ask.
pub(crate) fn start(
    writer: Writer,
    queue: usize,
) -> std::io::Result<(SyncSender<Job>, std::thread::JoinHandle<()>)> {
    let (ask, jobs) = std::sync::mpsc::sync_channel(queue);
    let thread = std::thread::Builder::new().name("log".into()).spawn(move || writer.run(jobs))?;
    Ok((ask, thread))
}
