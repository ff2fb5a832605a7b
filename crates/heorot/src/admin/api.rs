//! JSON types of the admin interface, for its server and its client. Ids are hexadecimal texts, since JSON's
//! numbers end at 2^53.

mod boot;
mod clients;
mod snapshots;
mod volumes;

use dataserver::TargetChecks;
use serde::{Deserialize, Serialize};

pub(crate) use self::boot::{Boot, BootGroup, BootNode, BootRequest, BootRoot, Image};
pub(crate) use self::clients::Client;
pub(crate) use self::snapshots::{Schedule, Snapshot, SnapshotDone, SnapshotRequest};
pub(crate) use self::volumes::{Quota, QuotaRequest, SnapshotName, Volume, VolumeRequest};

/// Answer to `GET /status` of a metaserver; a data server forwards it.
pub(crate) use metaserver::status::{Status, Target};

/// Answer to `GET /status` of a data server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DataServerStatus {
    /// Always "dataserver".
    pub role: String,
    pub version: String,
    pub name: String,
    pub targets: Vec<Target>,
    /// Checksums of the targets.
    #[serde(default)]
    pub checksums: Vec<Checksums>,
    /// Status of the cluster, from a metaserver; none: no metaserver answers.
    pub cluster: Option<serde_json::Value>,
}

/// Checksums of a target. Counts are since the start of the data server; times are in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Checksums {
    /// Target id.
    pub target: String,
    /// Blocks that are known to be damaged.
    pub damaged_blocks: u64,
    /// Blocks that were found damaged.
    pub damaged_found: u64,
    /// Checksums that were found damaged.
    pub sums_damaged_found: u64,
    /// Blocks that did not fit their checksum after a crash.
    pub summed_anew: u64,
    /// Begin of the scrub under way; none: it waits for its time.
    pub scrub_begun: Option<u64>,
    /// Bytes that it has read.
    pub scrub_bytes: u64,
    /// End of the last scrub.
    pub last_scrub_ended: Option<u64>,
    /// Damaged blocks and checksums that it found.
    pub last_scrub_found: Option<u64>,
}

impl From<TargetChecks> for Checksums {
    fn from(target: TargetChecks) -> Self {
        let TargetChecks { id, counts, scrub, lost_object_calls: _ } = target;
        Self {
            target: format!("{id:016x}"),
            damaged_blocks: counts.damaged_now,
            damaged_found: counts.damaged,
            sums_damaged_found: counts.sums_damaged,
            summed_anew: counts.summed_anew,
            scrub_begun: scrub.begun,
            scrub_bytes: scrub.bytes,
            last_scrub_ended: scrub.last.map(|run| run.ended),
            last_scrub_found: scrub.last.map(|run| run.found),
        }
    }
}

/// Body of `PUT /stripe`. A field that is `None` changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StripeRequest {
    pub path: String,
    #[serde(default)]
    pub inherit: bool,
    #[serde(default)]
    pub unit_bytes: Option<u64>,
    #[serde(default)]
    pub columns: Option<u32>,
    #[serde(default)]
    pub copies: Option<u32>,
    /// Name of a pool.
    #[serde(default)]
    pub pool: Option<String>,
}

/// Answer to `GET /stripe?path=…` and to `PUT /stripe`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stripe {
    pub path: String,
    pub unit_bytes: u32,
    /// Number of columns; 0: one on each target.
    pub columns: u32,
    /// Copies of each column.
    pub copies: u8,
    /// Whether the policy says how many; else its pool does.
    #[serde(default)]
    pub sets_copies: bool,
    /// Pool of the targets.
    #[serde(default)]
    pub pool: String,
    /// Directory that has this setting; none: the metaserver's configuration.
    pub set_on: Option<String>,
}

/// Body of `PUT /stripe/apply`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StripeApplyRequest {
    pub path: String,
}

/// Answer to `PUT /stripe/apply`, and to `GET /stripe/apply` where there was one since the metaserver's start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StripeApplied {
    pub path: String,
    pub is_running: bool,
    /// Files looked at.
    pub files: u64,
    /// Files that get copies.
    pub changed: u64,
    /// Files that could not be changed.
    pub left: u64,
    /// Files with more copies than new files have.
    pub more_copies: u64,
    /// Why it ended early.
    pub error: Option<String>,
}

impl From<metaserver::ApplyReport> for StripeApplied {
    fn from(report: metaserver::ApplyReport) -> Self {
        let metaserver::ApplyReport { path, is_running, files, changed, left, more_copies, error } = report;
        Self { path, is_running, files, changed, left, more_copies, error }
    }
}

/// Server in the answer to `GET /nodes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Node {
    pub id: String,
    pub name: String,
    /// "leader", "voter", "learner" or "data server".
    pub role: String,
    pub address: String,
    /// "joining", "serving", "draining" or "removed".
    pub state: String,
    pub version: String,
    /// "alive", "silent" or "unknown".
    pub liveness: cluster::Liveness,
    /// Time since the server was last heard; none: never.
    pub seen_ms: Option<u64>,
    /// Log entries that a metaserver has applied, and the number that it lacks.
    pub applied: Option<u64>,
    pub lag: Option<u64>,
    pub service_addresses: Vec<String>,
    /// Number of objects of a data server.
    pub objects: Option<u64>,
}

/// Body of `PUT /node`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeRequest {
    pub name: String,
    /// "drain", "undrain", "remove", "promote", "demote" or "lead".
    pub action: String,
    #[serde(default)]
    pub force: bool,
    /// Role to change on a machine that has both, "mds" or "ds"; empty: both.
    #[serde(default)]
    pub role: String,
}

/// Storage target in the answer to `GET /targets`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KnownTarget {
    pub id: String,
    /// Data server of the target; none: no data server has the target now.
    pub server: Option<String>,
    /// Zone of the data server; empty: none.
    #[serde(default)]
    pub zone: String,
    /// Its pool.
    #[serde(default)]
    pub pool: String,
    pub path: String,
    /// "in use", "missing", "away" or "lost".
    pub state: String,
    /// Capacity in bytes; none: not reported yet.
    #[serde(default)]
    pub total_bytes: Option<u64>,
    #[serde(default)]
    pub free_bytes: Option<u64>,
    /// Bytes of removed objects in the trash; free space includes them.
    #[serde(default)]
    pub trash_bytes: Option<u64>,
    /// Reserve in bytes; free space does not include it.
    #[serde(default)]
    pub reserve_bytes: Option<u64>,
    /// Number of chains that the target is a member of.
    #[serde(default)]
    pub chains: usize,
}

/// Pool in the answer to `GET /pools`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pool {
    pub name: String,
    /// Data server and directory of each target.
    pub targets: Vec<String>,
    /// Directories whose stripe policy names it; none: the default pool, which all others have.
    pub directories: Option<u64>,
    /// Copies of new files whose directory names no number.
    pub copies: u8,
    /// Whether the pool says so; else the cluster's settings do.
    pub sets_copies: bool,
    /// "read" or "scrub".
    pub verify: String,
    pub sets_verify: bool,
    pub total_bytes: u64,
    pub free_bytes: u64,
}

/// Body of `PUT /pool`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PoolRequest {
    pub name: String,
    /// "create", "set", "add" or "remove".
    pub action: String,
    /// Of "add": ids, data servers with directories, or data servers.
    #[serde(default)]
    pub targets: Vec<String>,
    /// Of "set": copies of new files; 0: as the cluster's settings say.
    #[serde(default)]
    pub copies: Option<u8>,
    /// Of "set": "read", "scrub", or "default".
    #[serde(default)]
    pub verify: Option<String>,
}

/// Body of `PUT /target`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TargetRequest {
    /// Target id, or data server and directory: `ds1:/data/sdb`.
    pub name: String,
    /// "drain", "undrain", "remove", "replace", "lost" or "found".
    pub action: String,
    /// Of "replace": the target that takes its place, named in the same way.
    #[serde(default)]
    pub by: Option<String>,
}

/// Pool in the answer to `GET /rebalance` and `POST /rebalance`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PoolBalance {
    pub pool: String,
    /// Data server and directory of the fullest target, and its used bytes in per cent.
    pub fullest: String,
    pub fullest_percent: f64,
    /// The same of the emptiest one.
    pub emptiest: String,
    pub emptiest_percent: f64,
    /// Chains that move.
    pub moving: u32,
    /// Chains that lack a member, or whose members get data that they lack.
    pub incomplete: u32,
    /// "even", "moving", "waiting", "cleaning", "looking" or "in vain".
    pub state: String,
    /// Why nothing moves; none: something does, or all is even.
    pub reason: Option<String>,
}

/// Body of `PUT /targets` of a data server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TargetAddition {
    /// Absolute path of a directory on its machine.
    pub path: String,
}

/// Answer to `GET /files?on=NAME&after=MARK`: one page of the files that have data there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Files {
    /// Path from the root of the volume; bytes of a name that are not text are written as `\xff`.
    pub paths: Vec<String>,
    /// Mark of the next page; none: the last page.
    pub next: Option<String>,
}

/// Report of the change, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeDone {
    pub done: String,
}

/// Join token in the answer to `GET /tokens`. Times are in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JoinToken {
    pub id: String,
    pub made: i64,
    pub expires: u64,
    /// Name of the machine that joined with the token.
    pub used_by: Option<String>,
}

/// Body of `PUT /tokens`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JoinTokenRequest {
    pub valid_seconds: u64,
}

/// Answer to `PUT /tokens`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NewJoinToken {
    pub id: String,
    /// Text of the token, for `heorot join`.
    pub token: String,
    pub expires: u64,
}

/// Answer to `POST /clean`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Clean {
    pub objects_seen: u64,
    pub objects_removed: u64,
    #[serde(default)]
    pub targets_cleaned: u64,
    /// Skipped targets, each with the reason.
    #[serde(default)]
    pub not_cleaned: Vec<String>,
}

/// Setting in the answers to `GET /settings` and `PUT /settings`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Setting {
    pub key: String,
    pub value: String,
    pub default: String,
    /// Description in one line.
    pub about: String,
}

/// Body of `PUT /settings`. No value: return to the default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettingRequest {
    pub key: String,
    #[serde(default)]
    pub value: Option<String>,
}

/// Export in the answer to `GET /exports`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Export {
    pub path: String,
    pub network: String,
    /// Rules as words, such as "rw,squash=root".
    pub rules: String,
    /// Path at the time of the export, if the directory was renamed since.
    pub exported_as: Option<String>,
    /// True if the directory was removed: the export serves no client.
    pub gone: bool,
}

/// Body of `PUT /exports`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExportRequest {
    /// "add", "set" or "remove".
    pub action: String,
    pub path: String,
    #[serde(default)]
    pub networks: Vec<String>,
    #[serde(default)]
    pub rules: String,
}

/// Service address in the answer to `GET /service-addresses`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServiceAddress {
    pub address: String,
    /// Name of the metaserver that holds the address; `None` while the address moves.
    pub holder: Option<String>,
}

/// Body of `PUT /service-addresses`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServiceAddressRequest {
    /// "add" or "remove".
    pub action: String,
    pub address: String,
}

/// Report of the change, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Done {
    pub done: String,
}

/// Body of any answer except 200.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refusal {
    pub error: String,
}

/// Answer to `POST /adopt` of a data server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Adopted {
    /// Epoch of each data server that obeys a new incarnation now.
    pub epochs: Vec<u64>,
}
