//! A run is a list of phases: all workers do their tasks at the same time, and the next phase begins when the
//! last is done.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::latencies::Latencies;
use crate::result::{Cache, Unit};
use crate::task::Task;
use crate::work::Progress;

/// Work that all workers do at the same time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// Name of the measured operation, such as `write` or `mdtest-hard-stat`.
    pub name: String,
    /// Parameters of this point, for tables: `record_bytes`, `clients`, `processes`, ...
    pub at: BTreeMap<String, u64>,
    /// By agent (a machine, or the one process), and there by worker.
    pub tasks: Vec<Vec<Task>>,
    /// Unit of its rate.
    pub unit: Unit,
    /// Treatment of caches.
    pub cache: Cache,
    /// Whether what is read is compared with what was written.
    pub verify: bool,
    /// Limit that ends it early; without one, workers finish their tasks.
    pub limit: Option<Limit>,
    /// Whether it is a result, or only prepares one.
    pub counts: bool,
}

impl Phase {
    /// What all workers together do if nothing ends it early; 0 bytes, if it is about names. For those who
    /// watch.
    #[must_use]
    pub fn planned(&self) -> Progress {
        let planned = self.tasks.iter().flatten().map(Task::planned);
        planned.fold(Progress::default(), |sum, task| Progress {
            bytes: sum.bytes.saturating_add(task.bytes),
            operations: sum.operations.saturating_add(task.operations),
        })
    }
}

/// A time after which a phase ends before its tasks do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// From the common start.
    pub after: Duration,
    /// The action after that.
    pub then: Then,
}

/// Action after the time of a [`Limit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Then {
    /// Workers stop where they are.
    Stop,
    /// The stonewall of IOR and mdtest, with wear-out: each worker says how many of its records or names are
    /// done, waits until all have said it, and goes on to the greatest of these numbers; so all do the same,
    /// and none was idle within the time. The whole phase is measured. A worker that is done before the time
    /// says it then.
    ///
    /// ```text
    /// worker 0  ├────────────── 90 ┤ 90
    /// worker 1  ├────────────── 70 ┤─────── 90
    ///        start               after       end
    /// ```
    WearOut,
}

/// A worker's report of one phase.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// From the common start to the end of its task, fsync included, on its own clock.
    pub seconds: f64,
    /// Bytes moved.
    pub bytes: u64,
    /// Records, or operations on names.
    pub operations: u64,
    /// Names that a walk found.
    pub found: u64,
    /// Bytes that were compared with what was written.
    pub verified_bytes: u64,
    /// Time of each record or operation.
    pub latencies: Latencies,
    /// Whether it was stopped, or ran out of time, before its task was done.
    pub stopped: bool,
}

/// An agent's report of one phase.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentDone {
    /// By worker, as [`Phase::tasks`].
    pub workers: Vec<Done>,
    /// How many bytes came from below the page cache during the phase, where the target can tell.
    pub fetched_bytes: Option<u64>,
}
