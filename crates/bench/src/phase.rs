//! A run is a list of phases: all workers do their tasks at the same time, and the next phase begins when the last is done.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::result::Cache;
use crate::task::Task;

/// What all workers do at the same time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// What is measured, such as `write` or `mdtest-hard-stat`.
    pub name: String,
    /// What this point is at, for tables: `record_bytes`, `clients`, `processes`, ...
    pub at: BTreeMap<String, u64>,
    /// By agent (a machine, or the one process), and there by worker.
    pub tasks: Vec<Vec<Task>>,
    /// What is done about caches.
    pub cache: Cache,
    /// Workers stop after this time, wherever they are; without it they finish their tasks.
    pub limit: Option<Duration>,
    /// Whether it is a result, or only prepares one.
    pub counts: bool,
}

/// A worker's report of one phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// From the common start to the end of its task, fsync included, on its own clock.
    pub seconds: f64,
    /// Bytes moved.
    pub bytes: u64,
    /// Records, or operations on names.
    pub operations: u64,
    /// Time of single operations, in microseconds: least, median, 99th percentile, greatest.
    pub latency_us: [f64; 4],
}
