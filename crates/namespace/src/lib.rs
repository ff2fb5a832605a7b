//! The metadata state machine: name space, clients, sessions, opens, locks and layouts in one deterministic
//! whole.
//!
//! In: a [`Proposal`], that is a [`Command`] with the [`Stamp`] that the leader gave it. Out: a [`Reply`];
//! the change is in the store. The same proposals in the same order give the same replies and the same store
//! on every replica, forever: there is no clock here, no randomness, no hash order, and no I/O but the
//! store's.
//!
//! Reads do not pass through the log: [`read`] answers them from any view of the store.

// What would make replicas differ: see clippy.toml.
#![deny(clippy::disallowed_types, clippy::disallowed_methods, clippy::float_arithmetic)]

mod apply;
mod calls;
mod check;
mod cluster;
mod cluster_map;
mod command;
mod deferred;
mod files;
mod generations;
mod keys;
mod layout;
mod plan;
pub mod read;
mod record;
mod reply;
mod servers;
mod slot;
mod states;
mod tokens;
mod types;

pub use apply::{ApplyError, Outcome, apply, begin_incarnation, format, plan, plan_fault};
pub use check::check;
pub use cluster_map::{
    ClusterMap, LOST_TARGETS_MAX, MapChange, MapHead, MetadataGroup, NODE_TEXT_BYTES_MAX, NODES_MAX, Node,
    NodeKey, NodeState, Pool, SERVICE_ADDRESSES_MAX, SETTING_KEY_BYTES_MAX, SETTING_VALUE_BYTES_MAX,
    SETTINGS_MAX, TargetState,
};
pub use command::*;
pub use generations::Generations;
pub use layout::*;
pub use plan::Changes;
pub use record::{
    ClientRecord, DelegationState, Held, LayoutState, LockState, OpenState, SessionRecord, State,
    StateCounts, Unsettled, is_sound,
};
pub use reply::*;
pub use tokens::{JOIN_TOKENS_MAX, JoinToken, TokenChange, TokenUse};
pub use types::*;

/// Names of one inode: ext4's limit, which tests of link counts know.
pub const LINKS_MAX: u32 = 65_000;

/// Bytes of a file: the largest offset that clients can express.
pub const SIZE_BYTES_MAX: u64 = i64::MAX as u64;

/// Bytes of data that a small file keeps with its inode. A write of that many costs the metaserver less than
/// the layout that it saves: one copy into the log and one into the store (some 30 us) against four more
/// calls. What is larger goes to the data servers, of which there can be many.
pub const INLINE_BYTES_MAX: u64 = 64 * 1024;

/// Clients that are not confirmed yet: what as many nodes as a big cluster has send in the moment between
/// EXCHANGE_ID and CREATE_SESSION. The oldest goes for the next, and asks again if it was in earnest.
pub const UNCONFIRMED_MAX: u32 = 4096;

/// The same of one address: a quarter of all, which is as many nodes as may stand behind one address.
pub const UNCONFIRMED_OF_ADDRESS_MAX: u32 = 1024;

/// Clients: as many nodes as the biggest clusters have. Each takes some 300 bytes of the store, at most 3
/// KiB.
pub const CLIENTS_MAX: u32 = 65_536;

/// Clients of one address: containers of one machine, or nodes behind one address.
pub const CLIENTS_OF_ADDRESS_MAX: u32 = 4096;

/// Sessions of one client: each keeps replies in memory and on disk. Linux has one.
pub const SESSIONS_OF_CLIENT_MAX: usize = 64;

/// Sessions of the clients of one address: two for each of them.
pub const SESSIONS_OF_ADDRESS_MAX: u32 = 8192;

/// Sessions: two for each client. A metaserver has some 500 bytes of memory for each, and what its slots
/// keep.
pub const SESSIONS_MAX: u32 = 131_072;

/// Addresses of one client: interfaces of a machine. The one that it has not come from for longest goes for
/// the next.
pub const ADDRESSES_OF_CLIENT_MAX: usize = 8;

/// Opens, lock-owners, locked ranges and layouts of one client together. A Linux client that has its whole
/// memory full of open files has fewer; a program gone wild on one node takes no more of the store than half
/// a gigabyte.
pub const CLIENT_STATES_MAX: u64 = 1_000_000;

/// Records that one command changes before it leaves the rest of its work to later commands. The last piece
/// of work that a command takes up may be a file with 250 extended attributes. A full command takes 3 ms on
/// the mean, and 10 ms at the 99th percentile (redb, 400,000 states and ranges; `tests/stories/measured.rs`).
pub const RECORDS_OF_COMMAND_MAX: usize = 1024;

/// Bytes of an extended attribute's name, without `user.`: what Linux can express.
pub const XATTR_NAME_BYTES_MAX: usize = 255;

/// Bytes of an extended attribute's value: Linux's limit.
pub const XATTR_VALUE_BYTES_MAX: usize = 64 << 10;

/// Extended attributes of one object: their names, with `user.` and an end mark, fit into the 64 KiB that
/// Linux lists.
pub const XATTRS_MAX: usize = 250;

/// Bytes of all names and values of one object's extended attributes: setting one looks at all of them.
pub const XATTRS_BYTES_MAX: u64 = 256 << 10;

/// Calls of NFSv3 whose replies are kept, of some 300 bytes each: ten megabytes. What all metaservers
/// together change for such clients in ten seconds, which is longer than a service address takes to move.
pub const CALLS_MAX: u64 = 32_768;

/// Nobody sends a call again after so long: Linux's `timeo` of 60 s, twice.
pub const CALL_SECONDS_MAX: i64 = 120;

/// Metaservers that have a session: more than a group ever has members. For the next one goes that is not
/// in the cluster map, else the one that began first.
pub const SERVERS_MAX: usize = 64;

/// The cookie of a directory's first entry: NFS reserves 0 to 2 (RFC 8881, section 18.23.3).
const FIRST_COOKIE: u64 = 3;

/// The bits of a mode that are stored.
const MODE_BITS: u32 = 0o7777;

/// Set-user-id and set-group-id.
const SET_ID_BITS: u32 = 0o6000;
