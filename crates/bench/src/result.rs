//! One JSON file of results: what was measured, on which machine, with which settings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Version of the file's shape: raised when a field changes its meaning or goes, not when one is added.
pub const SCHEMA: u32 = 1;

/// One file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Version of the program.
    pub version: String,
    /// Name of the measured system: `--name`, or the mount's type and source.
    pub system: String,
    /// When it began, RFC 3339, UTC.
    pub started: String,
    /// `record-size`, `mdtest`, ...
    pub run: String,
    /// Its settings, as given or as chosen.
    pub settings: BTreeMap<String, String>,
    /// One for each machine that worked.
    pub machines: Vec<Machine>,
    /// Whether it was ended early, by Ctrl-C or an error.
    pub partial: bool,
    /// Cause of an early end, in a line, such as `Ctrl-C`, or which agent died.
    #[serde(default)]
    pub ended_by: Option<String>,
    /// In the order in which they were measured.
    pub measurements: Vec<Measurement>,
    /// Of runs that have one, such as io500: name and value.
    pub scores: BTreeMap<String, f64>,
}

/// A machine that worked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Its name.
    pub host: String,
    /// Kernel, such as `Linux 6.1.176`.
    pub kernel: String,
    /// CPUs.
    pub cpus: u32,
    /// Its memory.
    pub memory_bytes: u64,
    /// What is under test as it sees it: path, type, source and options of the mount, or the address.
    pub target: String,
    /// Of an agent: its clock against the coordinator's.
    #[serde(default)]
    pub clock: Option<Clock>,
}

/// An agent's clock, seen from the coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// What its time of day was ahead of the coordinator's when it joined; negative: behind.
    pub ahead_us: f64,
    /// The common start of each phase is an instant of the coordinator's monotonic clock, converted to the
    /// agent's by a comparison just before it. No conversion was further off than this.
    pub error_us: f64,
}

/// Treatment of caches; named on each result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cache {
    /// Writes: the time includes an fsync of each file at its end.
    FsyncAtEnd,
    /// Past the page cache (`O_DIRECT`); writes with an fsync at the end, too.
    Direct,
    /// Reads: the client's caches were dropped before.
    Dropped,
    /// Reads: the data are of another client, or larger than memory.
    NotHere,
    /// Reads from the client's page cache were asked for.
    Warm,
    /// Operations on names, whose caches nothing was done about.
    AsIs,
    /// Reads by a client that has no cache.
    None,
}

/// In what a rate is counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Bytes, shown as MB/s.
    #[default]
    Bytes,
    /// Operations on names.
    Operations,
}

/// One point: a phase at one setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The phase.
    pub name: String,
    /// Parameters of the point: `record_bytes`, `clients`, `servers`, `processes`, ...
    pub at: BTreeMap<String, u64>,
    /// Unit of its rate.
    #[serde(default)]
    pub unit: Unit,
    /// Treatment of caches.
    pub cache: Cache,
    /// From the common start to the end of the last worker.
    pub seconds: f64,
    /// Bytes moved by all.
    pub bytes: u64,
    /// Records, or operations on names, of all.
    pub operations: u64,
    /// Names that walks found.
    #[serde(default)]
    pub found: u64,
    /// Seconds of each worker.
    pub workers: Vec<f64>,
    /// Time of single operations, in microseconds: least, median, 99th percentile, greatest.
    pub latency_us: [f64; 4],
    /// Bytes that were compared with what was written.
    pub verified_bytes: u64,
    /// Bytes a second, or operations a second, that the hardware allows, and which part of it binds.
    pub bound: Option<Bound>,
    /// Whether it was ended early.
    pub partial: bool,
}

/// Bound of the hardware, by the analytical model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// In bytes a second.
    pub rate: f64,
    /// Which term of the model binds: `client-cpu`, `client-links`, `server-links`, `disks`, `uplink`,
    /// `switch`.
    pub binds: String,
}
