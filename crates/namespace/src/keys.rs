//! Keys of all records. A key is one tag byte and then numbers, big-endian, so that keys sort like numbers; a
//! name, an owner or a list of variable length is last. A value is a version byte, a checksum and a postcard
//! record (`record.rs`).
//!
//! ```text
//! tag table            key after the tag                     value
//! 00  counters         ·                                     Counters
//! 01  inodes           inode:8                               Inode
//! 02  names            dir:8 name:1..                        Name { cookie, inode }
//! 03  cookies          dir:8 cookie:8                        CookieEntry { name, inode }
//! 04  small files      inode:8                               the data, raw
//! 05  xattrs           inode:8 name:1..                      Xattr { cookie, value }
//! 06  unsettled        inode:8                               Unsettled { grant, version }
//! 07  to settle        inode:8                               · (index of 06: without layouts to write)
//! 08  space untold     inode:8                               · (index of 01: `space_is_told` is false)
//! 09  objects          inode:8                               Objects { id, version, copy }; none: named as the inode
//! 0a  object owners    object:8                              InodeId (index of 09: of objects named otherwise)
//!
//! 10  clients          client:8                              ClientRecord
//! 11  owners           owner:0..                             OwnerRecord { confirmed, unconfirmed }
//! 12  sessions         session:16                            SessionRecord
//! 13  client sessions  client:8 session:16                   · (index of 12)
//! 14  slots            session:16 slot:4                     SlotRecord { sequence, index, reply, more }
//! 15  slot replies     session:16 slot:4 index:4             Reply, of the sequence in 14
//! 16  unconfirmed      client:8                              · (index of 10)
//! 17  calls            client:16 port:2 xid:4 procedure:4 checksum:8  CallRecord { number, time, replies }
//! 18  call order       ·                                     CallOrder { oldest, next }
//!                      number:8                              CallId (index of 17)
//! 19  servers          member:8                              ServerRecord { life, nonce }
//! 1a  server slots     member:8 slot:4                       ServerSlot { sequence, reply }
//! 1b  address uses     address:16                            AddressUse { unconfirmed, clients, sessions }
//! 1c  unconfirmed      address:16 client:8                   · (index of 10)
//!
//! 20  states           state:8                               State: open, lock or layout
//! 21  client states    client:8 state:8                      · (index of 20)
//! 22  opens            inode:8 client:8 owner:0..            StateId (index of 20)
//! 23  lock states      inode:8 client:8 owner:0..            StateId (index of 20)
//! 24  locks            set:8 end:8                           HeldLock { start, kind, inode }
//! 25  layouts          inode:8 client:8                      StateId (index of 20)
//! 26  uses             inode:8                               Use: how many opens, readers, deniers, layouts
//! 27  delegations      inode:8 client:8                      StateId (index of 20)
//!                      0:8 client:8 state:8                  StateId (index of 20): revoked
//! 28  client uses      client:8                              u64: states and locked ranges of a client
//! 29  write locks      inode:8 end:8 set:8                   RangeOf (index of 24)
//! 2a  read locks       inode:8 fork:8 end:8 set:8            RangeOf (index of 24)
//! 2b  read locks       inode:8 fork:8 start:8 set:8          RangeOf (index of 24)
//! 2c  contended        inode:8                               · (a change waits for delegations of the file)
//!
//! 30  deferred         id:8                                  DeferredOp
//! 31  truncations      inode:8                               id of the truncation in 30 (index)
//! 32  leftovers        0:8 client:8                          LeftStates: of an ended client
//!                      1:8 session:16                        · slots of an ended session
//!                      2:8 set:8                             LeftRanges: of a lock state that dropped many
//!                      3:8 open:8                            LeftLocks: of a closed open
//!                      4:8 client:8                          LeftLayouts: of a return of all layouts
//!                      5:8 volume:8                          LeftVolume: of a volume that was removed
//!                      6:8 volume:8                          · of a volume that is not counted yet
//!                      7:8 volume:8 version:8                snapshot id: of a snapshot that was removed
//!                      8:8 volume:8                          LeftRollback: of a volume that is rolled back
//!                      9:8 volume:8                          LeftPromotion: of a clone that is promoted
//!                      10:8 volume:8                         · marks in 72 of a clone that was promoted
//! 33  fences           inode:8                               id of the fence in 30 (index)
//!
//! 40  data servers     server:8                              DataServer
//! 41  targets          target:8                              DataServerId (index of 40)
//! 42  devices          device:8                              Device
//! 43  device lists     chain:8 chain:8 …                     DeviceId (index of 42)
//! 44  cluster map      ·                                     MapHead { version, service addresses, groups, … }
//! 45  nodes            kind:8 id:8                           Node; kind 0: metaserver, 1: data server
//! 46  incarnation      ·                                     Incarnation { id, epoch, began }
//! 47  settings         key:1..                               Setting { key, value }
//! 48  lost targets     target:8                              Time: of the declaration
//! 49  chains           chain:8                               Chain { id, version, verifier, members, leaving }
//! 4a  chains of target target:8 chain:8                      · (index of 49)
//! 4b  pools            pool:8                                Pool { id, name, targets, directories }
//! 4c  pools of targets target:8                              PoolId; none: the default pool
//!
//! 50  join tokens      token:8                               JoinToken { id, expires, made, used }
//! 51  boot groups      name:1..                              BootGroup { name, root, assigned }
//! 52  boot nodes       name:1..                              BootNode { name, mac, group, assigned }
//! 53  MAC addresses    mac:6                                 name of the node (index of 52)
//!
//! 60  volumes          ·                                     VolumeCounters { next, count }
//!                      volume:8                              Volume { id, next_inode, usage, counted, … }
//! 61  usages           root:8 kind:1 id:4                    Usage: of a user (1) or group (2) in a volume
//! 62  snapshots        ·                                     SnapshotCounters { next }
//!                      snapshot:8                            Snapshot { id, volume, version, name, created }
//! 63  histories        volume:8                              History { last, newest, count, kept, … }
//! 64  snapshots        volume:8 version:8                    snapshot id (index of 62)
//! 65  snapshot names   volume:8 name:1..                     snapshot id (index of 62)
//! 66  origins          ·                                     CloneCounters { next }
//!                      volume:8                              Origin { snapshot, first, depth, stage }: of a clone
//! 67  clones           snapshot:8 volume:8                   · (index of 66)
//! 68  to copy          inode:8                               · (objects of a clone's file, before it is no clone)
//!
//! 70  kept             key of 01 to 05, version:4            value that the key had when this snapshot was made
//!                      key of 09, version:4                  KeptObjects: objects that the file had then
//! 71  kept for         volume:8 version:8 key                · (index of 70)
//! 72  hidden           key of 01 to 05                       · (a clone has removed what its origin shows there)
//! ```
//!
//! Tags from 80 on are the replica's: it keeps its records of applied entries in the same store, and in the
//! same batch.
//!
//! Records that one operation needs are adjacent: a directory's names and its entries in cookie order are
//! each one range; so are the opens and the layouts of one file, and the states of one client. The ranges of
//! one lock state are a set; conflicts with them are found through 29 to 2b (`read/locks.rs`). An inode number begins
//! with its volume, so a volume is one range of each table that begins with an inode.

mod clones;
mod cluster;
mod snapshots;
mod tags;
mod volumes;

use std::net::IpAddr;

use crate::{CallId, ClientId, InodeId, SessionId, StateId};

pub(crate) use self::clones::*;
pub(crate) use self::cluster::*;
pub(crate) use self::snapshots::*;
pub(crate) use self::tags::*;
pub(crate) use self::volumes::*;

/// A key of the store.
pub(crate) type Key = Vec<u8>;

/// Key or prefix from `tag` and `numbers`.
pub(crate) fn of(tag: u8, numbers: &[u64]) -> Key {
    with_bytes(tag, numbers, &[])
}

/// Like [`of`], with `bytes` at the end.
pub(crate) fn with_bytes(tag: u8, numbers: &[u64], bytes: &[u8]) -> Key {
    let mut key = Vec::with_capacity(1 + numbers.len() * 8 + bytes.len());
    key.push(tag);
    for number in numbers {
        key.extend_from_slice(&number.to_be_bytes());
    }
    key.extend_from_slice(bytes);
    key
}

/// First key after all keys with the prefix. It exists, since no tag is 0xff.
pub(crate) fn after(prefix: &[u8]) -> Key {
    let mut end = prefix.to_vec();
    while end.pop_if(|last| *last == u8::MAX).is_some() {}
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

pub(crate) fn counters() -> Key {
    vec![COUNTERS]
}

pub(crate) fn inode(inode: InodeId) -> Key {
    of(INODES, &[inode.0])
}

pub(crate) fn name(dir: InodeId, name: &[u8]) -> Key {
    with_bytes(NAMES, &[dir.0], name)
}

pub(crate) fn cookie(dir: InodeId, cookie: u64) -> Key {
    of(COOKIES, &[dir.0, cookie])
}

pub(crate) fn inline(inode: InodeId) -> Key {
    of(INLINE, &[inode.0])
}

pub(crate) fn xattrs(inode: InodeId) -> Key {
    of(XATTRS, &[inode.0])
}

pub(crate) fn xattr(inode: InodeId, name: &[u8]) -> Key {
    with_bytes(XATTRS, &[inode.0], name)
}

pub(crate) fn unsettled(inode: InodeId) -> Key {
    of(UNSETTLED, &[inode.0])
}

pub(crate) fn space_untold(inode: InodeId) -> Key {
    of(SPACE_UNTOLD, &[inode.0])
}

pub(crate) fn to_settle(inode: InodeId) -> Key {
    of(TO_SETTLE, &[inode.0])
}

/// Key of the objects of a file.
pub(crate) fn objects(inode: InodeId) -> Key {
    of(OBJECTS, &[inode.0])
}

/// Key of the file of objects that are not named as their inode.
pub(crate) fn object_owner(object: InodeId) -> Key {
    of(OBJECT_OWNERS, &[object.0])
}

pub(crate) fn client(client: ClientId) -> Key {
    of(CLIENTS, &[client.0])
}

pub(crate) fn owner(owner: &[u8]) -> Key {
    with_bytes(OWNERS, &[], owner)
}

pub(crate) fn session(session: SessionId) -> Key {
    with_bytes(SESSIONS, &[], &session.0)
}

pub(crate) fn client_session(client: ClientId, session: SessionId) -> Key {
    with_bytes(CLIENT_SESSIONS, &[client.0], &session.0)
}

pub(crate) fn slots(session: SessionId) -> Key {
    with_bytes(SLOTS, &[], &session.0)
}

pub(crate) fn slot(session: SessionId, slot: u32) -> Key {
    let mut key = slots(session);
    key.extend_from_slice(&slot.to_be_bytes());
    key
}

/// Prefix of the replies of all slots of a session, or of one slot.
pub(crate) fn slot_replies(session: SessionId, slot: Option<u32>) -> Key {
    let mut key = with_bytes(SLOT_REPLIES, &[], &session.0);
    key.extend(slot.into_iter().flat_map(u32::to_be_bytes));
    key
}

pub(crate) fn slot_reply(session: SessionId, slot: u32, index: u32) -> Key {
    let mut key = slot_replies(session, Some(slot));
    key.extend_from_slice(&index.to_be_bytes());
    key
}

pub(crate) fn call(call: &CallId) -> Key {
    let mut key = with_bytes(CALLS, &[], &call.client);
    key.extend_from_slice(&call.port.to_be_bytes());
    key.extend_from_slice(&call.xid.to_be_bytes());
    key.extend_from_slice(&call.procedure.to_be_bytes());
    key.extend_from_slice(&call.checksum.to_be_bytes());
    key
}

/// Key of the oldest and the next number of a call.
pub(crate) fn call_order() -> Key {
    vec![CALL_ORDER]
}

pub(crate) fn call_number(number: u64) -> Key {
    of(CALL_ORDER, &[number])
}

pub(crate) fn server(member: u64) -> Key {
    of(SERVERS, &[member])
}

pub(crate) fn server_slots(member: u64) -> Key {
    of(SERVER_SLOTS, &[member])
}

pub(crate) fn server_slot(member: u64, slot: u32) -> Key {
    with_bytes(SERVER_SLOTS, &[member], &slot.to_be_bytes())
}

pub(crate) fn state(state: StateId) -> Key {
    of(STATES, &[state.0])
}

pub(crate) fn client_state(client: ClientId, state: StateId) -> Key {
    of(CLIENT_STATES, &[client.0, state.0])
}

pub(crate) fn open(inode: InodeId, client: ClientId, owner: &[u8]) -> Key {
    with_bytes(OPENS, &[inode.0, client.0], owner)
}

pub(crate) fn lock_state(inode: InodeId, client: ClientId, owner: &[u8]) -> Key {
    with_bytes(LOCK_STATES, &[inode.0, client.0], owner)
}

pub(crate) fn lock(set: u64, end: u64) -> Key {
    of(LOCKS, &[set, end])
}

pub(crate) fn write_lock(inode: InodeId, end: u64, set: u64) -> Key {
    of(WRITE_LOCKS, &[inode.0, end, set])
}

pub(crate) fn read_lock_by_end(inode: InodeId, fork: u64, end: u64, set: u64) -> Key {
    of(READ_LOCKS_BY_END, &[inode.0, fork, end, set])
}

pub(crate) fn read_lock_by_start(inode: InodeId, fork: u64, start: u64, set: u64) -> Key {
    of(READ_LOCKS_BY_START, &[inode.0, fork, start, set])
}

pub(crate) fn layout(inode: InodeId, client: ClientId) -> Key {
    of(LAYOUTS, &[inode.0, client.0])
}

pub(crate) fn delegation(inode: InodeId, client: ClientId) -> Key {
    of(DELEGATIONS, &[inode.0, client.0])
}

/// Client with the write delegation of a file.
pub(crate) fn write_delegation(inode: InodeId) -> Key {
    of(WRITE_DELEGATIONS, &[inode.0])
}

/// Key of a revoked delegation, in the index of file 0: no file has this number.
pub(crate) fn revoked(client: ClientId, state: StateId) -> Key {
    of(DELEGATIONS, &[0, client.0, state.0])
}

/// Mark of a file with delegations that a change has waited for.
pub(crate) fn contended(inode: InodeId) -> Key {
    of(CONTENDED, &[inode.0])
}

pub(crate) fn uses(inode: InodeId) -> Key {
    of(USES, &[inode.0])
}

pub(crate) fn unconfirmed(client: ClientId) -> Key {
    of(UNCONFIRMED, &[client.0])
}

pub(crate) fn address_use(address: IpAddr) -> Key {
    with_bytes(ADDRESS_USES, &[], &network_of(address))
}

/// Prefix of the unconfirmed clients of an address.
pub(crate) fn unconfirmed_of_address(address: IpAddr) -> Key {
    with_bytes(ADDRESS_UNCONFIRMED, &[], &network_of(address))
}

pub(crate) fn unconfirmed_of(address: IpAddr, client: ClientId) -> Key {
    let mut key = unconfirmed_of_address(address);
    key.extend_from_slice(&client.0.to_be_bytes());
    key
}

/// Network that counts as one address: for IPv6 a network of 64 bits, all of which one machine can have.
fn network_of(address: IpAddr) -> [u8; 16] {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => (v6.to_bits() >> 64 << 64).to_be_bytes(),
    }
}

pub(crate) fn client_uses(client: ClientId) -> Key {
    of(CLIENT_USES, &[client.0])
}

pub(crate) fn deferred(id: u64) -> Key {
    of(DEFERRED, &[id])
}

pub(crate) fn truncate(inode: InodeId) -> Key {
    of(TRUNCATIONS, &[inode.0])
}

pub(crate) fn fence(inode: InodeId) -> Key {
    of(FENCES, &[inode.0])
}

/// Key of the states of an ended client.
pub(crate) fn left_states(client: ClientId) -> Key {
    of(LEFTOVERS, &[0, client.0])
}

/// Key of the slots of an ended session.
pub(crate) fn left_slots(session: SessionId) -> Key {
    with_bytes(LEFTOVERS, &[1], &session.0)
}

/// Key of the ranges that a lock state has dropped.
pub(crate) fn left_ranges(set: u64) -> Key {
    of(LEFTOVERS, &[2, set])
}

/// Key of the lock states of a closed open.
pub(crate) fn left_locks(open: StateId) -> Key {
    of(LEFTOVERS, &[3, open.0])
}

/// Key of the layouts of a client that returned all of them.
pub(crate) fn left_layouts(client: ClientId) -> Key {
    of(LEFTOVERS, &[4, client.0])
}

/// Number at offset `at` of a key; 0 if the key is too short, which no key of the state machine is.
pub(crate) fn number(key: &[u8], at: usize) -> u64 {
    key.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes)
}
