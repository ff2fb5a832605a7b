//! JSON file of results: measurements, machines, settings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Schema version of the file: raised when a field changes its meaning or is removed, not when one is added.
pub const SCHEMA: u32 = 1;

/// File of results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Version of the program.
    pub version: String,
    /// Name of the measured system: `--name`, or the mount's type and source.
    pub system: String,
    /// Start time, RFC 3339, UTC.
    pub started: String,
    /// Name of the run: `record-size`, `mdtest`, ...
    pub run: String,
    /// Settings, given or default.
    pub settings: BTreeMap<String, String>,
    /// Machines of the agents.
    pub machines: Vec<Machine>,
    /// True if Ctrl-C or an error ended the run early.
    pub partial: bool,
    /// Cause of an early end in one line, such as `Ctrl-C`, or the lost agent.
    #[serde(default)]
    pub ended_by: Option<String>,
    /// Measurements in their order in time.
    pub measurements: Vec<Measurement>,
    /// Scores of runs such as io500: name and value.
    pub scores: BTreeMap<String, f64>,
}

/// Machine of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Host name.
    pub host: String,
    /// Kernel, such as `Linux 6.1.176`.
    pub kernel: String,
    /// Number of CPUs.
    pub cpus: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Target as the machine sees it: path, type, source and options of the mount, or the address.
    pub target: String,
    /// Clock of an agent, compared with the coordinator's.
    #[serde(default)]
    pub clock: Option<Clock>,
}

/// Clock of an agent, compared with the coordinator's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// Lead of its wall clock when it joined, in microseconds; negative: behind.
    pub ahead_us: f64,
    /// Maximal error of the common start, in microseconds. The start of each phase is a time of the
    /// coordinator's monotonic clock, converted to the agent's by a comparison just before.
    pub error_us: f64,
}

/// Treatment of caches, part of each result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cache {
    /// Writes: the time includes an fsync of each file at its end.
    FsyncAtEnd,
    /// Direct I/O (`O_DIRECT`); writes end with an fsync, too.
    Direct,
    /// Reads after the client's caches were dropped.
    Dropped,
    /// Reads of data of another client, or of more data than memory.
    NotHere,
    /// Reads from the client's page cache, on request.
    Warm,
    /// Operations on names without a treatment of caches.
    AsIs,
    /// Reads by a client without a cache.
    None,
}

/// Unit of a rate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Bytes, shown as MB/s.
    #[default]
    Bytes,
    /// Operations on names.
    Operations,
}

/// Measurement: a phase at one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Name of the phase.
    pub name: String,
    /// Parameters of the point: `record_bytes`, `clients`, `servers`, `processes`, ...
    pub at: BTreeMap<String, u64>,
    /// Unit of the rate.
    #[serde(default)]
    pub unit: Unit,
    /// Treatment of caches.
    pub cache: Cache,
    /// Seconds from the common start to the end of the last worker.
    pub seconds: f64,
    /// Bytes moved by all workers.
    pub bytes: u64,
    /// Records, or operations on names, of all workers.
    pub operations: u64,
    /// Names that walks found.
    #[serde(default)]
    pub found: u64,
    /// Seconds of each worker.
    pub workers: Vec<f64>,
    /// Latency of single operations, in microseconds: minimum, median, 99th percentile, maximum.
    pub latency_us: [f64; 4],
    /// Bytes that were compared with the written data.
    pub verified_bytes: u64,
    /// Bound of the rate by the hardware, with the binding resource.
    pub bound: Option<Bound>,
    /// True if the phase ended early.
    pub partial: bool,
}

/// Bound of the hardware, by the analytical model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// Bytes a second.
    pub rate: f64,
    /// Binding term of the model: `client-cpu`, `client-links`, `server-links`, `disks`, `uplink`, `switch`.
    pub binds: String,
}
