//! Phases of a run: all workers execute their tasks at the same time, and the next phase begins after the
//! last one ends.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::latencies::Latencies;
use crate::result::{Cache, Unit};
use crate::task::Task;
use crate::work::Progress;

/// Phase: tasks of all workers at the same time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// Name of the measured operation, such as `write` or `mdtest-hard-stat`.
    pub name: String,
    /// Parameters of this point, for tables: `record_bytes`, `clients`, `processes`, ...
    pub at: BTreeMap<String, u64>,
    /// Tasks by agent (a machine, or the one process), and by worker.
    pub tasks: Vec<Vec<Task>>,
    /// Unit of the rate.
    pub unit: Unit,
    /// Treatment of caches.
    pub cache: Cache,
    /// True if read data are compared with the written data.
    pub verify: bool,
    /// Limit that ends the phase early; none: workers finish their tasks.
    pub limit: Option<Limit>,
    /// True if the phase is a result, or only a preparation.
    pub counts: bool,
}

impl Phase {
    /// Planned work of all workers without an early end; 0 bytes for operations on names. For progress
    /// displays.
    #[must_use]
    pub fn planned(&self) -> Progress {
        let planned = self.tasks.iter().flatten().map(Task::planned);
        planned.fold(Progress::default(), |sum, task| Progress {
            bytes: sum.bytes.saturating_add(task.bytes),
            operations: sum.operations.saturating_add(task.operations),
        })
    }
}

/// Time limit of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// Time since the common start.
    pub after: Duration,
    /// Action at the time limit.
    pub then: Then,
}

/// Action at the time limit of a [`Limit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Then {
    /// Workers stop at once.
    Stop,
    /// Stonewall of IOR and mdtest, with wear-out: each worker reports its number of records or names, waits
    /// for the reports of all, and continues to the maximum; so all do the same work, and none was idle
    /// before the limit. The whole phase is measured. A worker that finishes before the limit reports then.
    ///
    /// ```text
    /// worker 0  ├────────────── 90 ┤ 90
    /// worker 1  ├────────────── 70 ┤─────── 90
    ///        start               after       end
    /// ```
    WearOut,
}

/// Results of a worker in one phase.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Seconds from the common start to the end of its task, including fsync, on its own clock.
    pub seconds: f64,
    /// Bytes moved.
    pub bytes: u64,
    /// Records, or operations on names.
    pub operations: u64,
    /// Names that a walk found.
    pub found: u64,
    /// Bytes that were compared with the written data.
    pub verified_bytes: u64,
    /// Time of each record or operation.
    pub latencies: Latencies,
    /// True if the worker stopped before the end of its task, by a stop or a time limit.
    pub stopped: bool,
}

/// Results of an agent in one phase.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentDone {
    /// Results by worker, as [`Phase::tasks`].
    pub workers: Vec<Done>,
    /// Bytes that came from below the page cache during the phase, if the target counts them.
    pub fetched_bytes: Option<u64>,
}
