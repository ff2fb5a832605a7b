//! Requests and answers about snapshots.

use serde::{Deserialize, Serialize};

/// Body of `PUT /snapshot`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SnapshotRequest {
    /// `create`, `remove` or `rollback`.
    pub action: String,
    /// Path of the volume.
    pub volume: String,
    /// Name of the snapshot.
    pub name: String,
    /// Also if clients have files of it open, or with `rollback` of the volume.
    #[serde(default)]
    pub force: bool,
}

/// Body of `PUT /snapshot-schedule`, and a part of the answer to `GET /snapshot-schedules`: how many snapshots of each kind
/// are kept; 0: none is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Schedule {
    /// Path of the volume.
    pub volume: String,
    pub hourly: u16,
    pub daily: u16,
    pub weekly: u16,
}

/// Answer to `PUT /snapshot`: a message that it is done, or what it waits for. Then it is to be asked for again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotDone {
    pub done: Option<String>,
    pub waits: Option<String>,
}

/// Snapshot in the answer to `GET /snapshots`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    /// Path of its volume.
    pub volume: String,
    /// Its name; none: snapshots of the volume were removed, and what was kept for them is being deleted.
    pub name: Option<String>,
    pub id: Option<u32>,
    /// Time at which it was made, in seconds since 1970.
    pub created: Option<i64>,
}
