//! The one thread that owns log and state machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use namespace::{Command, OpenTarget, Proposal, Reply};
use store::{Durability, Store, StoreError, View};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot, watch};

use crate::LogError;
use crate::flusher::Flusher;
use crate::log::Log;

/// Proposals that wait to be drained. More callers than that wait in turn.
const QUEUE_MAX: usize = 4096;
/// Commands in one batch: bounds how long its first waits for its last.
const BATCH_MAX: usize = 1024;
/// Bytes of small files' data in one batch: bounds the same, and the memory and the log segment that a batch takes.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// How long the store may be behind the disk: bounds what is replayed after a crash.
const STORE_SYNC_EVERY: Duration = Duration::from_secs(1);
/// Where the applied index is kept in the store: a tag that the state machine leaves to us.
const APPLIED_KEY: &[u8] = b"\xffapplied";
const LOG_DIR: &str = "log";
/// How often the disk's free space is looked at.
const SPACE_CHECK_EVERY: Duration = Duration::from_millis(100);

/// How a replica is opened.
#[derive(Debug, Clone)]
pub struct ReplicaConfig {
    /// The directory that holds the log and the store.
    pub dir: PathBuf,
    /// Below this much free space commands that make something are refused, so that there is always room to remove
    /// something and to close what is open.
    pub reserve_bytes: u64,
}

/// Why a proposal has no reply.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReplicaError {
    /// The disk is full: nothing was done.
    #[error("no space for metadata")]
    NoSpace,
    /// The log or the store failed, now or before. The command may be found done after a restart.
    #[error("metadata service failed: {0}")]
    Failed(String),
}

type Waiting = (Proposal, oneshot::Sender<Result<Reply, ReplicaError>>);

/// A handle on the replicated state machine.
#[derive(Clone)]
pub struct Replica {
    store: Arc<dyn Store>,
    queue: mpsc::Sender<Waiting>,
    failure: watch::Receiver<Option<String>>,
    thread: Arc<std::sync::Mutex<Option<JoinHandle<()>>>>,
}

impl Replica {
    /// Opens the log, applies what the store does not have yet, and starts the thread. `format` fills an empty store.
    ///
    /// # Errors
    /// When log or store cannot be opened, or are damaged.
    pub fn open(
        config: ReplicaConfig,
        store: Arc<dyn Store>,
        format: &mut dyn FnMut(&mut dyn store::Edit) -> Result<(), StoreError>,
    ) -> Result<Self, ReplicaError> {
        let fail = |e: &dyn std::fmt::Display| ReplicaError::Failed(e.to_string());
        let applied = match applied_index(&*store.snapshot().map_err(|e| fail(&e))?).map_err(|e| fail(&e))? {
            Some(applied) => applied,
            None => {
                let mut first = |edit: &mut dyn store::Edit| {
                    format(edit)?;
                    edit.put(APPLIED_KEY, &applied_value(0))
                };
                store.batch(Durability::Immediate, &mut first).map_err(|e| fail(&e))?;
                0
            }
        };
        let mut behind = Vec::new();
        let log = Log::open(&config.dir.join(LOG_DIR), applied, |r| behind.push(r)).map_err(|e| fail(&e))?;
        if !behind.is_empty() {
            tracing::info!(commands = behind.len(), "replaying the log");
        }
        for chunk in behind.chunks(BATCH_MAX) {
            let mut all = |edit: &mut dyn store::Edit| {
                for record in chunk {
                    namespace::apply(edit, &record.proposal)?;
                }
                let last = chunk.last().map_or(applied, |r| r.index);
                edit.put(APPLIED_KEY, &applied_value(last))
            };
            store.batch(Durability::Deferred, &mut all).map_err(|e| fail(&e))?;
        }
        let (queue, receiver) = mpsc::channel(QUEUE_MAX);
        let (failed, failure) = watch::channel(None);
        let flusher = Flusher::start(Arc::clone(&store), config.dir.join(LOG_DIR)).map_err(|e| fail(&e))?;
        let machine = Machine {
            store: Arc::clone(&store),
            log,
            flusher,
            config,
            failed,
            synced: Instant::now(),
            dirty: !behind.is_empty(),
            space: Space { checked: None, low: false },
        };
        let thread = std::thread::Builder::new()
            .name("replica".into())
            .spawn(move || machine.run(receiver))
            .map_err(|e| fail(&e))?;
        Ok(Self { store, queue, failure, thread: Arc::new(std::sync::Mutex::new(Some(thread))) })
    }

    /// Has the command ordered, made durable and applied.
    ///
    /// # Errors
    /// [`ReplicaError`]. A command whose caller went away may still be carried out.
    pub async fn propose(&self, proposal: Proposal) -> Result<Reply, ReplicaError> {
        let (tx, rx) = oneshot::channel();
        let stopped = || ReplicaError::Failed(self.failure.borrow().clone().unwrap_or("stopped".into()));
        self.queue.send((proposal, tx)).await.map_err(|_| stopped())?;
        rx.await.map_err(|_| stopped())?
    }

    /// A view that has everything acknowledged before this call.
    ///
    /// # Errors
    /// [`StoreError`] when the engine fails.
    pub fn view(&self) -> Result<Box<dyn View + Send + Sync>, StoreError> {
        self.store.snapshot()
    }

    /// Returns when the replica has failed, with the reason; never otherwise.
    pub async fn failed(&self) -> String {
        let mut failure = self.failure.clone();
        match failure.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            // The thread says why it fails; it ends without a word only when it panics.
            Err(_) => "the thread of the replica ended".into(),
        }
    }

    /// Finishes what is queued, brings the store to disk and ends the thread. The last handle must call it.
    pub fn stop(self) {
        let thread = self.thread.lock().ok().and_then(|mut t| t.take());
        drop(self);
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

fn applied_index(view: &dyn View) -> Result<Option<u64>, StoreError> {
    let Some(bytes) = view.get(APPLIED_KEY)? else { return Ok(None) };
    let index = bytes.first_chunk().map(|index| u64::from_be_bytes(*index));
    match index.filter(|index| applied_value(*index) == bytes[..]) {
        Some(index) => Ok(Some(index)),
        None => Err(StoreError { doing: "read the applied index", cause: "it is damaged".into() }),
    }
}

/// The index, big-endian, and its CRC-32C, little-endian.
fn applied_value(index: u64) -> [u8; 12] {
    let mut value = [0; 12];
    value[..8].copy_from_slice(&index.to_be_bytes());
    let sum = crc32c::crc32c(&value[..8]).to_le_bytes();
    value[8..].copy_from_slice(&sum);
    value
}

struct Machine {
    store: Arc<dyn Store>,
    log: Log,
    flusher: Flusher,
    config: ReplicaConfig,
    failed: watch::Sender<Option<String>>,
    synced: Instant,
    dirty: bool,
    space: Space,
}

struct Space {
    checked: Option<Instant>,
    low: bool,
}

impl Space {
    /// Whether the disk is nearly full.
    fn is_low(&mut self, dir: &Path, reserve: u64) -> bool {
        if self.checked.is_none_or(|at| at.elapsed() > SPACE_CHECK_EVERY) {
            self.checked = Some(Instant::now());
            self.low = rustix::fs::statvfs(dir).is_ok_and(|fs| fs.f_bavail * fs.f_frsize < reserve);
        }
        self.low
    }
}

impl Machine {
    fn run(mut self, mut queue: mpsc::Receiver<Waiting>) {
        let timer = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let Ok(timer) = timer else {
            tracing::error!("no timer for the replica");
            self.failed.send_replace(Some("no timer for the replica".into()));
            return;
        };
        let mut waiting = Vec::with_capacity(BATCH_MAX);
        let outcome = loop {
            let waits = self.dirty || self.flusher.is_busy();
            let wait = if waits { STORE_SYNC_EVERY } else { Duration::from_secs(3600) };
            let received = timer.block_on(async {
                tokio::time::timeout(wait, queue.recv_many(&mut waiting, BATCH_MAX)).await
            });
            let carried_out = match received {
                Ok(0) => break Ok(()),
                Ok(_) => self.carry_out_all(&mut waiting),
                Err(_) => Ok(()),
            };
            if let Err(reason) = carried_out.and_then(|()| self.flush_in_time()) {
                break Err(reason);
            }
        };
        let Self { store, flusher, failed, .. } = self;
        let last = || store.batch(Durability::Immediate, &mut |_| Ok(())).map_err(|e| e.to_string());
        if let Err(reason) = outcome.and(flusher.stop()).and_then(|()| last()) {
            tracing::error!(%reason, "the metadata service stops");
            failed.send_replace(Some(reason));
        }
    }

    /// All that waits, in batches that are not too large.
    fn carry_out_all(&mut self, waiting: &mut Vec<Waiting>) -> Result<(), String> {
        while !waiting.is_empty() {
            let mut bytes = 0;
            let fits = waiting.iter().take_while(|(proposal, _)| {
                bytes += data_bytes(&proposal.command);
                bytes <= BATCH_BYTES_MAX
            });
            let count = fits.count().max(1);
            let mut batch = waiting.drain(..count).collect();
            self.carry_out(&mut batch)?;
        }
        Ok(())
    }

    /// One batch: log, store, answers. An error is final.
    fn carry_out(&mut self, batch: &mut Vec<Waiting>) -> Result<(), String> {
        if self.space.is_low(&self.config.dir, self.config.reserve_bytes) {
            for (_, answer) in batch.extract_if(.., |(proposal, _)| makes_something(&proposal.command)) {
                let _ = answer.send(Err(ReplicaError::NoSpace));
            }
            if batch.is_empty() {
                return Ok(());
            }
        }
        match self.log.append(batch.iter().map(|(proposal, _)| proposal)) {
            Ok(()) => {}
            Err(LogError::NoSpace(dir)) => {
                tracing::error!(dir = %dir.display(), "no space for the log: free some; changes are refused");
                batch.drain(..).for_each(|(_, answer)| drop(answer.send(Err(ReplicaError::NoSpace))));
                return Ok(());
            }
            Err(e) => return Err(e.to_string()),
        }
        let applied = self.log.next_index() - 1;
        let mut replies = Vec::with_capacity(batch.len());
        let mut all = |edit: &mut dyn store::Edit| {
            for (proposal, _) in batch.iter() {
                replies.push(namespace::apply(edit, proposal)?);
            }
            edit.put(APPLIED_KEY, &applied_value(applied))
        };
        self.store.batch(Durability::Deferred, &mut all).map_err(|e| e.to_string())?;
        for ((_, answer), reply) in batch.drain(..).zip(replies) {
            let _ = answer.send(Ok(reply));
        }
        self.dirty = true;
        Ok(())
    }

    /// Has the store brought to disk when it is time, and forgets what of the log is then not needed any more.
    fn flush_in_time(&mut self) -> Result<(), String> {
        if let Some(outcome) = self.flusher.ended() {
            self.log.forget(outcome?).map_err(|e| e.to_string())?;
        }
        if self.dirty && !self.flusher.is_busy() && self.synced.elapsed() >= STORE_SYNC_EVERY {
            self.flusher.begin(self.log.next_index() - 1, self.log.is_half_full());
            self.dirty = false;
            self.synced = Instant::now();
        }
        Ok(())
    }
}

/// Bytes that a command carries beyond names and numbers.
fn data_bytes(command: &Command) -> usize {
    match command {
        Command::WriteInline { data, .. } => data.len(),
        _ => 0,
    }
}

/// Whether a command takes room that only a later command gives back.
fn makes_something(command: &Command) -> bool {
    match command {
        Command::Create(_) | Command::Link { .. } | Command::Rename { .. } => true,
        Command::WriteInline { .. } => true,
        // Anyone can send these without having proved anything.
        Command::ExchangeId { .. } | Command::CreateSession { .. } => true,
        Command::Open(open) => matches!(open.target, OpenTarget::Create { .. }),
        _ => false,
    }
}
