//! Tags: the first byte of each key.

pub(crate) const COUNTERS: u8 = 0x00;
pub(crate) const INODES: u8 = 0x01;
pub(crate) const NAMES: u8 = 0x02;
pub(crate) const COOKIES: u8 = 0x03;
pub(crate) const INLINE: u8 = 0x04;
pub(crate) const XATTRS: u8 = 0x05;
pub(crate) const UNSETTLED: u8 = 0x06;
pub(crate) const TO_SETTLE: u8 = 0x07;
pub(crate) const SPACE_UNTOLD: u8 = 0x08;
pub(crate) const OBJECTS: u8 = 0x09;
pub(crate) const OBJECT_OWNERS: u8 = 0x0a;
pub(crate) const CLIENTS: u8 = 0x10;
pub(crate) const OWNERS: u8 = 0x11;
pub(crate) const SESSIONS: u8 = 0x12;
pub(crate) const CLIENT_SESSIONS: u8 = 0x13;
pub(crate) const SLOTS: u8 = 0x14;
pub(crate) const SLOT_REPLIES: u8 = 0x15;
pub(crate) const UNCONFIRMED: u8 = 0x16;
pub(crate) const CALLS: u8 = 0x17;
pub(crate) const CALL_ORDER: u8 = 0x18;
pub(crate) const SERVERS: u8 = 0x19;
pub(crate) const SERVER_SLOTS: u8 = 0x1a;
pub(crate) const ADDRESS_USES: u8 = 0x1b;
pub(crate) const ADDRESS_UNCONFIRMED: u8 = 0x1c;
pub(crate) const STATES: u8 = 0x20;
pub(crate) const CLIENT_STATES: u8 = 0x21;
pub(crate) const OPENS: u8 = 0x22;
pub(crate) const LOCK_STATES: u8 = 0x23;
pub(crate) const LOCKS: u8 = 0x24;
pub(crate) const LAYOUTS: u8 = 0x25;
pub(crate) const USES: u8 = 0x26;
pub(crate) const DELEGATIONS: u8 = 0x27;
pub(crate) const CLIENT_USES: u8 = 0x28;
pub(crate) const WRITE_LOCKS: u8 = 0x29;
pub(crate) const READ_LOCKS_BY_END: u8 = 0x2a;
pub(crate) const READ_LOCKS_BY_START: u8 = 0x2b;
pub(crate) const CONTENDED: u8 = 0x2c;
pub(crate) const WRITE_DELEGATIONS: u8 = 0x2d;
pub(crate) const DEFERRED: u8 = 0x30;
pub(crate) const TRUNCATIONS: u8 = 0x31;
pub(crate) const LEFTOVERS: u8 = 0x32;
pub(crate) const FENCES: u8 = 0x33;
pub(crate) const DATA_SERVERS: u8 = 0x40;
pub(crate) const TARGETS: u8 = 0x41;
pub(crate) const DEVICES: u8 = 0x42;
pub(crate) const DEVICE_LISTS: u8 = 0x43;
pub(crate) const MAP: u8 = 0x44;
pub(crate) const NODES: u8 = 0x45;
pub(crate) const INCARNATION: u8 = 0x46;
pub(crate) const SETTINGS: u8 = 0x47;
pub(crate) const DECLARED_TARGETS: u8 = 0x48;
pub(crate) const CHAINS: u8 = 0x49;
pub(crate) const CHAINS_OF_TARGET: u8 = 0x4a;
pub(crate) const POOLS: u8 = 0x4b;
pub(crate) const POOLS_OF_TARGETS: u8 = 0x4c;
pub(crate) const JOIN_TOKENS: u8 = 0x50;
pub(crate) const BOOT_GROUPS: u8 = 0x51;
pub(crate) const BOOT_NODES: u8 = 0x52;
pub(crate) const BOOT_MACS: u8 = 0x53;
pub(crate) const VOLUMES: u8 = 0x60;
pub(crate) const USAGES: u8 = 0x61;
pub(crate) const SNAPSHOTS: u8 = 0x62;
pub(crate) const HISTORIES: u8 = 0x63;
pub(crate) const SNAPSHOTS_OF: u8 = 0x64;
pub(crate) const SNAPSHOT_NAMES: u8 = 0x65;
pub(crate) const ORIGINS: u8 = 0x66;
pub(crate) const CLONES: u8 = 0x67;
pub(crate) const TO_COPY: u8 = 0x68;
pub(crate) const KEPT: u8 = 0x70;
pub(crate) const KEPT_FOR: u8 = 0x71;
pub(crate) const HIDDEN: u8 = 0x72;

/// First tag of the replica, which keeps its own records in the same store.
pub(crate) const OTHERS: u8 = 0x80;

/// All tags of the state machine.
pub(crate) const TAGS: [u8; 71] = [
    COUNTERS,
    INODES,
    NAMES,
    COOKIES,
    INLINE,
    XATTRS,
    UNSETTLED,
    TO_SETTLE,
    SPACE_UNTOLD,
    OBJECTS,
    OBJECT_OWNERS,
    CLIENTS,
    OWNERS,
    SESSIONS,
    CLIENT_SESSIONS,
    SLOTS,
    SLOT_REPLIES,
    UNCONFIRMED,
    CALLS,
    CALL_ORDER,
    SERVERS,
    SERVER_SLOTS,
    ADDRESS_USES,
    ADDRESS_UNCONFIRMED,
    STATES,
    CLIENT_STATES,
    OPENS,
    LOCK_STATES,
    LOCKS,
    LAYOUTS,
    USES,
    DELEGATIONS,
    CLIENT_USES,
    WRITE_LOCKS,
    READ_LOCKS_BY_END,
    READ_LOCKS_BY_START,
    CONTENDED,
    WRITE_DELEGATIONS,
    DEFERRED,
    TRUNCATIONS,
    LEFTOVERS,
    FENCES,
    DATA_SERVERS,
    TARGETS,
    DEVICES,
    DEVICE_LISTS,
    MAP,
    NODES,
    INCARNATION,
    DECLARED_TARGETS,
    CHAINS,
    CHAINS_OF_TARGET,
    POOLS,
    POOLS_OF_TARGETS,
    JOIN_TOKENS,
    BOOT_GROUPS,
    BOOT_NODES,
    BOOT_MACS,
    SETTINGS,
    VOLUMES,
    USAGES,
    SNAPSHOTS,
    HISTORIES,
    SNAPSHOTS_OF,
    SNAPSHOT_NAMES,
    ORIGINS,
    CLONES,
    TO_COPY,
    KEPT,
    KEPT_FOR,
    HIDDEN,
];
