//! Where what waits for a disk is done: on threads of their own; in a simulation, which has but one thread and its own
//! time, on the task that asks.

use std::pin::pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use host::{Clock, Entropy, Files, SystemClock, SystemEntropy, SystemFiles};
use namespace::{ApplyError, Proposal, Reply, Time};
use store::Edit;

/// Default length of a segment of the log: small enough that a fresh start is cheap, large enough that one is made every few hundred thousand commands.
pub(crate) const SEGMENT_BYTES: u64 = 32 << 20;

/// What stays of the log behind what the store has, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct LogRetention {
    /// Always: a member that was away for less need not be sent a snapshot.
    pub always: u64,
    /// While a member that lives has less: it is being sent a snapshot, perhaps, and what comes after that must be there
    /// when it is in place, or another one would follow.
    pub for_lagging_members: u64,
}

impl Default for LogRetention {
    /// A GiB: what a busy group orders in the minutes that a snapshot of tens of GiB takes.
    fn default() -> Self {
        Self { always: 64 << 20, for_lagging_members: 1 << 30 }
    }
}

/// How long the disk takes for something; asked before each time.
pub type DiskDelay = Arc<dyn Fn() -> Duration + Send + Sync>;

/// Carries out a command: [`namespace::apply`], but for tests of what becomes of a command that breaks an invariant.
pub type Apply = fn(&mut dyn Edit, &Proposal) -> Result<Reply, ApplyError>;

/// The time of day.
pub type TimeOfDay = Arc<dyn Fn() -> Time + Send + Sync>;

/// What a replica is run on.
#[derive(Clone)]
pub struct Environment {
    /// The state machine.
    pub apply: Apply,
    /// What the leader stamps commands with that other members passed on to it.
    pub time: TimeOfDay,
    /// Where log and snapshots are.
    pub files: Arc<dyn Files>,
    /// Where what nobody may guess comes from: what tells the log's records from clients' data.
    pub entropy: Arc<dyn Entropy>,
    /// The length of the log's segments.
    pub segment_bytes: u64,
    /// How much of the log stays that this member does not need any more.
    pub log_retention: LogRetention,
    /// None: the machine, with threads. Some: a simulation, with one thread and a disk that takes so long.
    pub disk_delay: Option<DiskDelay>,
}

impl Default for Environment {
    /// The machine.
    fn default() -> Self {
        let (files, entropy) = (Arc::new(SystemFiles), Arc::new(SystemEntropy));
        let clock = SystemClock::default();
        let time = Arc::new(move || {
            let wall = clock.wall();
            Time { seconds: wall.seconds, nanoseconds: wall.nanoseconds }
        });
        let (apply, log_retention): (Apply, _) = (namespace::apply, LogRetention::default());
        Self { apply, time, files, entropy, segment_bytes: SEGMENT_BYTES, log_retention, disk_delay: None }
    }
}

impl Environment {
    /// An id that no other has: 128 random bits, not all zero.
    pub(crate) fn random_id(&self) -> [u8; 16] {
        let [low, high] = [self.entropy.u64().max(1), self.entropy.u64()];
        (u128::from(high) << 64 | u128::from(low)).to_le_bytes()
    }
}

/// The part of [`Environment`] that says where work is done.
#[derive(Clone)]
pub(crate) struct BlockingRunner(pub Option<DiskDelay>);

impl BlockingRunner {
    /// Has `work` done. An error is a panic of it.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        match &self.0 {
            None => tokio::task::spawn_blocking(work).await.map_err(|e| e.to_string()),
            Some(disk_delay) => {
                tokio::time::sleep(disk_delay()).await;
                Ok(work())
            }
        }
    }
}

/// What was started, to be waited for at its end.
pub(crate) enum RunningTask {
    Thread(JoinHandle<()>),
    Task(tokio::task::JoinHandle<()>),
}

impl RunningTask {
    /// A task is waited for in vain where nothing else can run meanwhile: see [`RunningTask::ended`].
    pub(crate) fn join(self) {
        if let RunningTask::Thread(thread) = self {
            let _ = thread.join();
        }
    }

    pub(crate) async fn ended(self) {
        match self {
            RunningTask::Thread(thread) => drop(thread.join()),
            RunningTask::Task(task) => drop(pin!(task).await),
        }
    }
}
