//! The metadata state machine: name space, clients, sessions, opens, locks, layouts and delegations in one
//! deterministic program.
//!
//! In: a [`Proposal`]: a [`Command`] with its [`Stamp`]. Out: a [`Reply`], and the change in the store. The
//! same proposals in the same order give the same replies and the same store on every replica, forever: there
//! is no clock here, no randomness, no hash order, and no I/O but the store's.
//!
//! Reads do not pass through the log: [`read`] uses any view of the store.

// Sources of differences between replicas: see clippy.toml.
#![deny(clippy::disallowed_types, clippy::disallowed_methods, clippy::float_arithmetic)]

mod apply;
mod boot;
mod calls;
mod chain;
mod check;
mod clones;
mod cluster;
mod cluster_map;
mod command;
mod deferred;
mod files;
mod generations;
mod keys;
mod layout;
mod plan;
mod pools;
pub mod read;
mod record;
mod reply;
mod servers;
mod slot;
mod snapshot;
mod states;
mod tokens;
mod types;
mod volume;

pub use apply::{ApplyError, Outcome, apply, begin_incarnation, format, plan, plan_fault};
pub use boot::{
    Assigned, BOOT_GROUPS_MAX, BOOT_NAME_BYTES_MAX, BOOT_NODES_MAX, BOOT_WORDS_BYTES_MAX, BootChange,
    BootGroup, BootNode, BootRoot, OWN_DIRECTORIES_MAX, OWN_DIRECTORY_BYTES_MAX, are_words, is_boot_name,
    is_own_directory,
};
pub use chain::{
    CHAINS_MAX, CHAINS_OF_COMMAND_MAX, COPIES_MAX, Chain, ChainChange, ChainId, ChainMember, ChainStep,
    MemberState, NewChain, open::OpenChain,
};
pub use check::check;
pub use clones::{CLONES_DEEP_MAX, Origin, Stage};
pub use cluster_map::{
    ClusterMap, DECLARED_TARGETS_MAX, MapChange, MapHead, MetadataGroup, NODE_TEXT_BYTES_MAX, NODES_MAX,
    Node, NodeKey, NodeState, SERVICE_ADDRESSES_MAX, SETTING_KEY_BYTES_MAX, SETTING_VALUE_BYTES_MAX,
    SETTINGS_MAX, TargetState,
};
pub use command::*;
pub use generations::Generations;
pub use layout::*;
pub use plan::Changes;
pub use pools::{
    DEFAULT_POOL, POOL_NAME_BYTES_MAX, POOLED_TARGETS_MAX, POOLS_MAX, Pool, PoolId, PoolPolicy,
    TARGETS_OF_COMMAND_MAX, Verify,
};
pub use record::{
    ClientRecord, DelegationKind, DelegationState, Held, LayoutState, LockState, OpenState, SessionRecord,
    State, StateCounts, Unsettled, is_sound,
};
pub use reply::*;
pub use slot::{Claimant, claimant};
pub use snapshot::{History, SNAPSHOTS_OF_VOLUME_MAX, Schedule, Snapshot, Snapshots};
pub use tokens::{JOIN_TOKENS_MAX, JoinToken, TokenChange, TokenUse};
pub use types::*;
pub use volume::{BLOCK_BYTES, Counted, Limits, NewVolume, Subject, Usage, VOLUMES_MAX, Volume, VolumeId};

/// Maximum of names of one inode: ext4's limit, which tests of link counts expect.
pub const LINKS_MAX: u32 = 65_000;

/// Maximum size of a file in bytes: the largest offset that clients can express.
pub const SIZE_BYTES_MAX: u64 = i64::MAX as u64;

/// Maximum of inline data of a file in bytes. A write of this size costs the metaserver less than the layout
/// that it saves: one copy into the log and one into the store (some 30 us) against four more calls. Larger
/// data go to the data servers, whose number can grow.
pub const INLINE_BYTES_MAX: u64 = 64 * 1024;

/// Maximum of unconfirmed clients: the nodes of a big cluster, all between EXCHANGE_ID and CREATE_SESSION.
/// Beyond it the oldest is removed; if it is a real client, it asks again.
pub const UNCONFIRMED_MAX: u32 = 4096;

/// Maximum of unconfirmed clients of one address: a quarter of all, enough for all nodes behind one address.
pub const UNCONFIRMED_OF_ADDRESS_MAX: u32 = 1024;

/// Maximum of unconfirmed clients of one owner: one for each address that asked.
pub const UNCONFIRMED_OF_OWNER_MAX: usize = 8;

/// Maximum of confirmed clients: the nodes of the biggest clusters. Each takes some 300 bytes of the store,
/// at most 3 KiB.
pub const CLIENTS_MAX: u32 = 65_536;

/// Maximum of clients of one address: containers of one machine, or nodes behind one address.
pub const CLIENTS_OF_ADDRESS_MAX: u32 = 4096;

/// Maximum of sessions of one client: each keeps replies in memory and on disk. Linux has one.
pub const SESSIONS_OF_CLIENT_MAX: usize = 64;

/// Maximum of sessions of the clients of one address: two for each client.
pub const SESSIONS_OF_ADDRESS_MAX: u32 = 8192;

/// Maximum of sessions: two for each client. A metaserver has some 500 bytes of memory for each, and the
/// replies of its slots.
pub const SESSIONS_MAX: u32 = 131_072;

/// Maximum of addresses of one client: interfaces of a machine. Beyond it the address that was not used for
/// the longest time is removed.
pub const ADDRESSES_OF_CLIENT_MAX: usize = 8;

/// Maximum of opens, lock-owners, locked ranges and layouts of one client together. A Linux client with its
/// whole memory full of open files has fewer. A faulty program on one node takes at most half a gigabyte of
/// the store.
pub const CLIENT_STATES_MAX: u64 = 1_000_000;

/// Number of states of a client from which on it gets no write delegation. Linux gives back those of closed files itself when
/// it has 5,000.
pub const WRITE_DELEGATIONS_MAX: u64 = 8192;

/// Maximum of records that one command changes before it leaves the rest of its work to later commands. The
/// last piece of work of a command may be a file with 250 extended attributes. A full command takes 3 ms on
/// average, and 10 ms at the 99th percentile (redb, 400,000 states and ranges; `tests/stories/measured.rs`).
pub const RECORDS_OF_COMMAND_MAX: usize = 1024;

/// Maximum length of an extended attribute's name in bytes, without `user.`: the limit of Linux.
pub const XATTR_NAME_BYTES_MAX: usize = 255;

/// Maximum length of an extended attribute's value in bytes: the limit of Linux.
pub const XATTR_VALUE_BYTES_MAX: usize = 64 << 10;

/// Maximum of extended attributes of one inode: their names, with `user.` and an end mark, fit into the 64
/// KiB that Linux lists.
pub const XATTRS_MAX: usize = 250;

/// Maximum bytes of all names and values of one inode's extended attributes: a SETXATTR reads all of them.
pub const XATTRS_BYTES_MAX: u64 = 256 << 10;

/// Maximum of recorded NFSv3 calls, some 300 bytes each: ten megabytes. The changes of all metaservers for
/// such clients in ten seconds, which is longer than a service address takes to move.
pub const CALLS_MAX: u64 = 32_768;

/// Maximum age of a recorded call in seconds. No client sends a retry later: Linux's `timeo` of 60 s, twice.
pub const CALL_SECONDS_MAX: i64 = 120;

/// Maximum of metaservers with a session: more than a group ever has members. Beyond it a member that is not
/// in the cluster map is removed, otherwise the member with the oldest session.
pub const SERVERS_MAX: usize = 64;

/// Cookie of a directory's first entry: NFS reserves 0 to 2 (RFC 8881, section 18.23.3).
const FIRST_COOKIE: u64 = 3;

/// Mode bits that are stored.
const MODE_BITS: u32 = 0o7777;

/// Set-user-id and set-group-id bits.
const SET_ID_BITS: u32 = 0o6000;
