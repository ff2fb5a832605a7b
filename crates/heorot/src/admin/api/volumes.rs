//! Requests and answers about volumes and quotas.

use serde::{Deserialize, Serialize};

/// Body of `PUT /quota`. A limit that is `None` stays; 0 is no limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QuotaRequest {
    /// Path of the volume.
    pub path: String,
    /// Name or number of a user in it.
    #[serde(default)]
    pub user: Option<String>,
    /// Name or number of a group in it.
    #[serde(default)]
    pub group: Option<String>,
    #[serde(default)]
    pub bytes_hard: Option<u64>,
    #[serde(default)]
    pub bytes_soft: Option<u64>,
    #[serde(default)]
    pub files_hard: Option<u64>,
    #[serde(default)]
    pub files_soft: Option<u64>,
    #[serde(default)]
    pub grace_seconds: Option<u32>,
}

/// Usage and limits in the answer to `GET /quotas`: of a volume, or of a user or group in it. A limit of 0 is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Quota {
    pub path: String,
    pub user: Option<String>,
    pub group: Option<String>,
    pub bytes: u64,
    pub bytes_hard: u64,
    pub bytes_soft: u64,
    pub files: u64,
    pub files_hard: u64,
    pub files_soft: u64,
    pub grace_seconds: u32,
    /// Seconds until a soft limit becomes a hard one.
    pub grace_left: Option<u64>,
    /// False while the volume is being counted.
    pub is_counted: bool,
}

/// Body of `PUT /volume`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VolumeRequest {
    /// `create`, `rename`, `remove`, `clone` or `promote`.
    pub action: String,
    /// Path of its root.
    pub path: String,
    /// With `rename`: its new path.
    #[serde(default)]
    pub to: Option<String>,
    /// With `remove`: also its files, and those that are open.
    #[serde(default)]
    pub force: bool,
    /// With `create`: how its files are striped; what is not named is as in the directory above.
    #[serde(default)]
    pub unit_bytes: Option<u64>,
    #[serde(default)]
    pub columns: Option<u32>,
    #[serde(default)]
    pub copies: Option<u32>,
    /// Name of a pool.
    #[serde(default)]
    pub pool: Option<String>,
    /// With `clone`: of what.
    #[serde(default)]
    pub snapshot: Option<SnapshotName>,
}

/// Name of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SnapshotName {
    /// Path of its volume.
    pub volume: String,
    pub name: String,
}

/// Volume in the answer to `GET /volumes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Volume {
    pub id: u32,
    /// Path of its root; none: it was removed, and its files are being deleted.
    pub path: Option<String>,
    /// Files, directories and all else in it.
    pub inodes: u64,
    /// Bytes in it, as `du` shows them.
    pub bytes: u64,
    /// Volumes in it.
    pub volumes: u32,
    /// Snapshots of it.
    pub snapshots: u32,
    /// Bytes that are kept for them alone.
    pub snapshot_bytes: u64,
    /// Time of its creation, in seconds since 1970.
    pub created: Option<i64>,
    /// Of a clone: `VOLUME@NAME` of the snapshot that it shares data with.
    pub clone_of: Option<String>,
    /// True while a clone is promoted.
    pub is_promoted: bool,
}
