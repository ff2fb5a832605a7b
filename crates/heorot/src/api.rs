//! The admin interface's words, as JSON on both of its sides. Ids are hexadecimal texts, for JSON's numbers end at 2^53.

use serde::{Deserialize, Serialize};
use wire::data::TargetCondition;

/// `GET /status` of a metaserver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Status {
    /// "metaserver"; a data server's answer is [`DataServerStatus`].
    pub role: String,
    pub version: String,
    pub cluster: String,
    pub uptime_seconds: u64,
    pub clients: u64,
    pub sessions: u64,
    /// Files, directories and all else.
    pub inodes: u64,
    /// Truncations and removals that have not reached every object yet.
    pub work: u64,
    /// File bytes that went through the metaserver.
    pub proxied_read_bytes: u64,
    pub proxied_written_bytes: u64,
    /// One, unless it is one of a group.
    pub metaservers: Vec<Metaserver>,
    /// Of the leader; others do not know.
    pub service_addresses: Vec<ServiceAddress>,
    pub data_servers: Vec<DataServer>,
}

/// `GET /status` of a data server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DataServerStatus {
    pub role: String,
    pub version: String,
    pub name: String,
    pub targets: Vec<Target>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Metaserver {
    pub id: String,
    pub name: String,
    /// Where the others reach it.
    pub consensus: String,
    /// "leader", "voter" or "learner".
    pub role: String,
    /// Whether it is the one that answers.
    pub answers: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServiceAddress {
    pub address: String,
    /// The name of the metaserver that holds it; none: nobody, for a moment.
    pub holder: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DataServer {
    pub id: String,
    pub name: String,
    pub addresses: Vec<String>,
    pub targets: Vec<Target>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Target {
    pub id: String,
    pub path: String,
    pub total_bytes: u64,
    pub free_bytes: u64,
    pub objects: u64,
    /// "ok", "full", "read-only", "failed", "missing" or "silent".
    pub state: String,
}

/// `PUT /stripe`. What is none stays as it is.
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
}

/// `GET /stripe?path=…`, and the answer to `PUT /stripe`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stripe {
    pub path: String,
    pub unit_bytes: u32,
    /// 0: one on each target.
    pub columns: u32,
    /// The directory that says so; none: the metaserver's configuration.
    pub set_on: Option<String>,
}

/// One server, of the list that `GET /nodes` gives.
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
    /// How long ago it was heard of; none: not yet.
    pub seen_ms: Option<u64>,
    /// Of a metaserver: the entries of the log that it has, and how many it lacks.
    pub applied: Option<u64>,
    pub lag: Option<u64>,
    pub service_addresses: Vec<String>,
    /// Of a data server.
    pub objects: Option<u64>,
}

/// `PUT /node`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeRequest {
    pub name: String,
    /// "drain", "undrain", "remove", "promote", "demote" or "lead".
    pub action: String,
    #[serde(default)]
    pub force: bool,
}

/// What was done, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeDone {
    pub done: String,
}

/// The answer to `POST /clean`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Clean {
    pub objects_seen: u64,
    pub objects_removed: u64,
}

/// Any answer that is not 200.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refusal {
    pub error: String,
}

/// "ok", "full", "read-only", "failed", "missing", or "silent".
pub(crate) fn state(alive: bool, condition: TargetCondition) -> String {
    match (alive, condition) {
        (false, _) => "silent",
        (true, TargetCondition::Ok) => "ok",
        (true, TargetCondition::Full) => "full",
        (true, TargetCondition::ReadOnly) => "read-only",
        (true, TargetCondition::Failed) => "failed",
        (true, TargetCondition::Missing) => "missing",
    }
    .into()
}
