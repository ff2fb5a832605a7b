//! The status of the cluster, as one metaserver knows it: `heorot status`, the metrics page, and the STATUS
//! procedure by which data servers ask for it.
//!
//! ```text
//! cluster map, members, heartbeats ──▶ gather ──▶ Status ──▶ health::assess ──▶ verdict, findings
//! ```
//!
//! The types are the JSON of the admin interface. Ids are hexadecimal texts, since JSON's numbers end at
//! 2^53.

mod gather;
mod health;

use cluster::Liveness;
use serde::{Deserialize, Serialize};

pub use gather::{condition_word, state_word};
pub use health::{Finding, Health, Verdict};

/// One metaserver's knowledge of the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// "metaserver".
    pub role: String,
    /// Version of the program of the metaserver that answers.
    pub version: String,
    /// The cluster's id.
    pub cluster: String,
    /// The verdict, and the reasons for it.
    pub health: Health,
    /// Name of the metaserver that answers.
    pub asked: String,
    /// Name of the metaserver that leads; none: unknown, or there is none.
    pub leader: Option<String>,
    /// Term of the consensus.
    pub term: u64,
    /// Seconds since the process of the metaserver that answers was started.
    pub uptime_seconds: u64,
    /// NFSv4 clients.
    pub clients: u64,
    /// Sessions of NFSv4 clients.
    pub sessions: u64,
    /// Opens, locks, layouts and delegations of NFSv4 clients.
    pub states: States,
    /// Files, directories and everything else in the volume.
    pub inodes: u64,
    /// Truncations and removals that have not reached every object yet.
    pub deferred_ops: u64,
    /// File bytes that clients read through this metaserver, not from data servers.
    pub proxied_read_bytes: u64,
    /// File bytes that clients wrote through this metaserver.
    pub proxied_written_bytes: u64,
    /// The members of the group, removed ones left out.
    pub metaservers: Vec<Metaserver>,
    /// The service addresses and their holders; none: the leader could not be asked.
    pub service_addresses: Option<Vec<ServiceAddress>>,
    /// The data servers, removed ones left out.
    pub data_servers: Vec<DataServer>,
    /// Pools in which new files wait for a place, each with the reason.
    #[serde(default)]
    pub pools_without_place: Vec<(String, String)>,
    /// Targets that drain, and whose data have no place elsewhere, each with the reason.
    #[serde(default)]
    pub drains_without_place: Vec<(String, String)>,
    /// Chains of targets that keep copies of the same data.
    #[serde(default)]
    pub chains: Chains,
    /// The clients that the metaserver that answers has refused since it was started.
    #[serde(default)]
    pub refused: Refused,
    /// Commands that broke an invariant of the state machine, at the metaserver that answers, since it was
    /// started.
    #[serde(default)]
    pub commands_given_up: u64,
}

/// Numbers of chains of several targets, by the state of their members.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chains {
    /// All chains.
    pub count: u64,
    /// Chains whose members lack data, and get it: their data have fewer copies than they should.
    pub refilling: u64,
    /// Chains with all copies that move to another target.
    #[serde(default)]
    pub moving: u64,
    /// Chains with a member that is away, or with fewer members than copies: their data have fewer copies than they should.
    pub incomplete: u64,
    /// Chains without a member that has all data: clients wait for their files.
    pub waiting: u64,
    /// Those of them that have waited since the group was restored from a backup.
    #[serde(default)]
    pub in_doubt: u64,
    /// Chains whose copies share a zone: one fault may take several of them.
    #[serde(default)]
    pub in_one_zone: u64,
    /// Chains with members that have gone to other pools: their data are on the way.
    #[serde(default)]
    pub in_other_pools: u64,
    /// Copies of new files in directories without a stripe policy.
    #[serde(default)]
    pub copies_of_new_files: u8,
    /// How far the refilling of members is.
    #[serde(default)]
    pub refill: Refill,
}

/// Refilling of members of chains that are compared whole: after a lost target, or a move.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refill {
    /// Bytes that members have been compared with since nothing was left.
    pub done_bytes: u64,
    /// Bytes that members are still to be compared with, also those of chains whose members are still to be replaced, by
    /// estimate.
    pub left_bytes: u64,
    /// Bytes compared in a second, over the last ten.
    pub bytes_per_second: u64,
}

impl Refill {
    /// Share of what is done, in percent; none: nothing is left.
    #[must_use]
    pub fn percent(&self) -> Option<u8> {
        let all = u128::from(self.done_bytes) + u128::from(self.left_bytes);
        let percent = (u128::from(self.done_bytes) * 100).checked_div(all).filter(|_| self.left_bytes > 0)?;
        u8::try_from(percent).ok()
    }

    /// Time left at the present rate, in seconds; none: it is not known.
    #[must_use]
    pub fn seconds_left(&self) -> Option<u64> {
        self.left_bytes.checked_div(self.bytes_per_second).filter(|_| self.left_bytes > 0)
    }
}

/// Refused clients.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Mounts and calls that were refused.
    pub count: u64,
    /// The address that was refused last.
    pub last_address: Option<String>,
    /// Why: "address", "port", "path" or "handle".
    pub last_reason: Option<String>,
}

/// Numbers of states of NFSv4 clients, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct States {
    /// Opens.
    pub opens: u64,
    /// Lock stateids; one may have many ranges.
    pub locks: u64,
    /// Layouts.
    pub layouts: u64,
    /// Delegations, revoked ones that their clients have not freed yet included.
    pub delegations: u64,
}

/// One member of the group of metaservers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metaserver {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The address of its consensus port.
    pub consensus: String,
    /// "leader", "voter" or "learner".
    pub role: String,
    /// "joining", "serving" or "draining".
    pub state: String,
    /// Liveness.
    pub liveness: Liveness,
    /// Milliseconds since its last sign of life.
    pub seen_ms: Option<u64>,
    /// Entries of the log that it lacks; none: unknown.
    pub lag: Option<u64>,
    /// Version of its program; empty: unknown.
    pub version: String,
    /// Milliseconds that its clock is ahead of the cluster's; negative: behind; none: unknown.
    pub clock_ahead_ms: Option<i64>,
    /// True if it serves no client, since its metadata are disputed or cannot be read.
    #[serde(default)]
    pub out_of_service: bool,
}

/// One service address.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceAddress {
    /// The address.
    pub address: String,
    /// The name of the server that holds it; none: no server does.
    pub holder: Option<String>,
    /// True if it is an address of data servers.
    #[serde(default)]
    pub is_of_data_servers: bool,
}

/// One data server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataServer {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Addresses for clients and metaservers.
    pub addresses: Vec<String>,
    /// Its zone, such as a rack; empty: none.
    #[serde(default)]
    pub zone: String,
    /// "serving" or "draining".
    pub state: String,
    /// Liveness.
    pub liveness: Liveness,
    /// Milliseconds since its last sign of life.
    pub seen_ms: Option<u64>,
    /// Version of its program; empty: unknown.
    pub version: String,
    /// Milliseconds that its clock is ahead of the cluster's; negative: behind; none: unknown.
    pub clock_ahead_ms: Option<i64>,
    /// True if it may have data without copies elsewhere.
    #[serde(default)]
    pub has_sole_copies: bool,
    /// Its storage targets.
    pub targets: Vec<Target>,
}

/// One storage target.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Its id.
    pub id: String,
    /// Its directory on the data server; empty: its server has not registered since this metaserver was
    /// started.
    pub path: String,
    /// Bytes of the file system that it is on.
    pub total_bytes: u64,
    /// Bytes free there.
    pub free_bytes: u64,
    /// Objects on it.
    pub objects: u64,
    /// Bytes of removed objects that are still kept; they count as free.
    #[serde(default)]
    pub trash_bytes: u64,
    /// Bytes of the file system that are left alone; they do not count as free.
    #[serde(default)]
    pub reserve_bytes: u64,
    /// "ok", "damaged", "full", "read-only", "failed", "missing", or "silent".
    pub state: String,
}

impl Target {
    /// True if new files are placed on it, and have room.
    #[must_use]
    pub fn takes_files(&self) -> bool {
        matches!(self.state.as_str(), "ok" | "damaged")
    }
}
