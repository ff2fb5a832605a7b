//! Environment of a replica: state machine, clock, files, entropy, and where blocking work runs. On a machine
//! blocking work runs on threads; in a simulation, which has one thread and its own time, it runs on the
//! calling task.

use std::pin::pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use host::{Clock, Entropy, Files, SystemClock, SystemEntropy, SystemFiles};
use namespace::{ApplyError, Outcome, Proposal, Time};
use store::View;

/// Default length of a segment of the log: small enough for a cheap first start, large enough that a new one
/// is needed only every few hundred thousand commands.
pub(crate) const SEGMENT_BYTES: u64 = 32 << 20;

/// Retention of log entries that the store already has, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct LogRetention {
    /// Kept always: a member that was away for less than this needs no snapshot.
    pub always: u64,
    /// Kept while a reachable member lags. That member may be receiving a snapshot; the entries after the
    /// snapshot must still exist when it is installed, or it would need another one.
    pub for_lagging_members: u64,
}

impl Default for LogRetention {
    /// 1 GiB for lagging members: the commands of a busy group during the minutes that a snapshot of tens of
    /// GiB takes.
    fn default() -> Self {
        Self { always: 64 << 20, for_lagging_members: 1 << 30 }
    }
}

/// Delay of one disk operation; asked before each operation.
pub type DiskDelay = Arc<dyn Fn() -> Duration + Send + Sync>;

/// Function that plans a command: [`namespace::plan`], except in tests of broken invariants.
pub type Plan = fn(&dyn View, &Proposal) -> Result<Outcome, ApplyError>;

/// Time of day.
pub type TimeOfDay = Arc<dyn Fn() -> Time + Send + Sync>;

/// Environment that a replica runs in.
#[derive(Clone)]
pub struct Environment {
    /// Function that plans commands.
    pub plan: Plan,
    /// Clock with which the leader stamps commands that other members forwarded.
    pub time: TimeOfDay,
    /// Files of the log and of snapshots.
    pub files: Arc<dyn Files>,
    /// Source of unpredictable numbers: they distinguish the log's records from clients' data.
    pub entropy: Arc<dyn Entropy>,
    /// Length of the log's segments in bytes.
    pub segment_bytes: u64,
    /// Retention of log entries that this member no longer needs.
    pub log_retention: LogRetention,
    /// Disk delay of a simulation, which has one thread; None: a machine with threads.
    pub disk_delay: Option<DiskDelay>,
}

impl Default for Environment {
    /// Environment of this machine.
    fn default() -> Self {
        let (files, entropy) = (Arc::new(SystemFiles), Arc::new(SystemEntropy));
        let clock = SystemClock::default();
        let time = Arc::new(move || {
            let wall = clock.wall();
            Time { seconds: wall.seconds, nanoseconds: wall.nanoseconds }
        });
        let (plan, log_retention): (Plan, _) = (namespace::plan, LogRetention::default());
        Self { plan, time, files, entropy, segment_bytes: SEGMENT_BYTES, log_retention, disk_delay: None }
    }
}

impl Environment {
    /// Unique id: 128 random bits, not all zero.
    pub(crate) fn random_id(&self) -> [u8; 16] {
        let [low, high] = [self.entropy.u64().max(1), self.entropy.u64()];
        (u128::from(high) << 64 | u128::from(low)).to_le_bytes()
    }
}

/// Runner of blocking work: on a thread, or on the calling task after the simulated disk delay.
#[derive(Clone)]
pub(crate) struct BlockingRunner(pub Option<DiskDelay>);

impl BlockingRunner {
    /// Runs `work`. An error is a panic of `work`.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        #[allow(clippy::disallowed_methods)] // no simulation
        match &self.0 {
            None => tokio::task::spawn_blocking(work).await.map_err(|e| e.to_string()),
            Some(disk_delay) => {
                tokio::time::sleep(disk_delay()).await;
                Ok(work())
            }
        }
    }
}

/// Thread or task that was started and is joined at its end.
pub(crate) enum RunningTask {
    Thread(JoinHandle<()>),
    Task(tokio::task::JoinHandle<()>),
}

impl RunningTask {
    /// Joins a thread. A task cannot be joined without yielding to the runtime: see [`RunningTask::ended`].
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
