//! The admin interface's words, as JSON on both of its sides. Ids are hexadecimal texts, for JSON's numbers
//! end at 2^53.

use serde::{Deserialize, Serialize};

/// Answer to `GET /status` of a metaserver, which a data server passes on.
pub(crate) use metaserver::status::{Status, Target};

/// `GET /status` of a data server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DataServerStatus {
    /// "dataserver".
    pub role: String,
    pub version: String,
    pub name: String,
    pub targets: Vec<Target>,
    /// The status of the cluster, from a metaserver; none: no metaserver answers.
    pub cluster: Option<serde_json::Value>,
}

/// `PUT /stripe`. A field that is `None` changes nothing.
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
    /// "alive", "silent" or "unknown".
    pub liveness: metaserver::status::Liveness,
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
    /// "mds" or "ds": which server of a machine that has both; empty: all.
    #[serde(default)]
    pub role: String,
}

/// One storage target, of the list that `GET /targets` gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KnownTarget {
    pub id: String,
    /// The data server that has it; none: no data server has it now.
    pub server: Option<String>,
    pub path: String,
    /// "in use", "missing", "away" or "lost".
    pub state: String,
    /// Bytes; none: its data server has not reported any.
    #[serde(default)]
    pub total_bytes: Option<u64>,
    #[serde(default)]
    pub free_bytes: Option<u64>,
    /// Of removed objects that are still kept; they count as free.
    #[serde(default)]
    pub trash_bytes: Option<u64>,
    /// Left alone; they do not count as free.
    #[serde(default)]
    pub reserve_bytes: Option<u64>,
}

/// `PUT /target`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TargetRequest {
    /// Its id, or its data server and directory: `ds1:/data/sdb`.
    pub name: String,
    /// "lost" or "found".
    pub state: String,
}

/// `GET /files?on=NAME&after=MARK`: some of the files that have data there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Files {
    /// Path from the root of the volume; bytes of a name that are not text are written as `\xff`.
    pub paths: Vec<String>,
    /// The mark that the next page begins after; none: that was all.
    pub next: Option<String>,
}

/// Report of the change, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeDone {
    pub done: String,
}

/// One join token, of the list that `GET /tokens` gives. Times are in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JoinToken {
    pub id: String,
    pub made: i64,
    pub expires: u64,
    /// The name of the machine that it let in.
    pub used_by: Option<String>,
}

/// `PUT /tokens`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JoinTokenRequest {
    pub valid_seconds: u64,
}

/// The answer to `PUT /tokens`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NewJoinToken {
    pub id: String,
    /// Text of the token, for `heorot join`.
    pub token: String,
    pub expires: u64,
}

/// The answer to `POST /clean`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Clean {
    pub objects_seen: u64,
    pub objects_removed: u64,
    #[serde(default)]
    pub targets_cleaned: u64,
    /// Targets that were left out, each with the reason.
    #[serde(default)]
    pub not_cleaned: Vec<String>,
}

/// One setting, of the list that `GET /settings` gives, and the answer to `PUT /settings`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Setting {
    pub key: String,
    pub value: String,
    pub default: String,
    /// Description, in a line.
    pub about: String,
}

/// `PUT /settings`. No value: its default holds again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettingRequest {
    pub key: String,
    #[serde(default)]
    pub value: Option<String>,
}

/// One export, of the list that `GET /exports` gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Export {
    pub path: String,
    pub network: String,
    /// Words, such as "rw,squash=root".
    pub rules: String,
    /// The path that it was exported by, if it has another one now.
    pub exported_as: Option<String>,
    /// True if the directory was removed: the export serves no client.
    pub gone: bool,
}

/// `PUT /exports`.
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

/// One address that moves between metaservers, of the list that `GET /service-addresses` gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServiceAddress {
    pub address: String,
    /// The name of the metaserver that holds it; `None` for a moment while it moves.
    pub holder: Option<String>,
}

/// `PUT /service-addresses`.
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

/// Any answer that is not 200.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refusal {
    pub error: String,
}

/// `POST /adopt` of a data server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Adopted {
    /// Of each data server that obeys another incarnation now, the number of that.
    pub epochs: Vec<u64>,
}
