//! What is kept under the keys.
//!
//! ```text
//! │version 1│crc32c 4, little-endian│ record, postcard │
//! ```
//!
//! The checksum is over key, version and record: a damaged value, or one under another's key, is an error
//! where it is read, and nothing ever reckons with it.
//!
//! A record that must change gets a new version byte and a reader for the old one; stores are never rewritten
//! at once.

use std::net::IpAddr;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use store::{StoreError, View};

use crate::{
    ByteRange, Channels, ClientId, InodeId, IoMode, LockKind, Principal, Reply, SessionId, Share, StateId,
    Stateid, Time, keys,
};

/// The version of every record so far.
const VERSION: u8 = 1;

/// Version and checksum.
const HEADER_BYTES: usize = 5;

/// The bytes of a record under `key`.
pub(crate) fn encode<T: Serialize>(key: &[u8], record: &T) -> Result<Vec<u8>, StoreError> {
    let mut bytes = postcard::to_extend(record, vec![VERSION, 0, 0, 0, 0])
        .map_err(|cause| StoreError { doing: "encode a record", cause: cause.to_string() })?;
    let sum = checksum(key, &bytes[HEADER_BYTES..]);
    bytes[1..HEADER_BYTES].copy_from_slice(&sum);
    Ok(bytes)
}

/// The bytes of a small file's data under `key`: as they are, behind the same header.
pub(crate) fn encode_data(key: &[u8], data: &[u8]) -> Vec<u8> {
    let header = [&[VERSION][..], &checksum(key, data)].concat();
    [&header, data].concat()
}

/// The record in `bytes`, which stand under `key`.
pub(crate) fn decode<T: DeserializeOwned>(key: &[u8], bytes: &[u8]) -> Result<T, StoreError> {
    postcard::from_bytes(sound(key, bytes)?).map_err(|cause| failed(cause.to_string()))
}

/// The head of the record in `bytes`: a struct of its first fields. What follows is only checked for damage.
pub(crate) fn decode_head<T: DeserializeOwned>(key: &[u8], bytes: &[u8]) -> Result<T, StoreError> {
    let head = postcard::take_from_bytes(sound(key, bytes)?);
    head.map(|(head, _)| head).map_err(|cause| failed(cause.to_string()))
}

/// A small file's data in `bytes`, which stand under `key`.
pub(crate) fn decode_data(key: &[u8], bytes: Vec<u8>) -> Result<Bytes, StoreError> {
    sound(key, &bytes)?;
    Ok(Bytes::from(bytes).slice(HEADER_BYTES..))
}

/// The record's own bytes, which are as they were written.
fn sound<'a>(key: &[u8], bytes: &'a [u8]) -> Result<&'a [u8], StoreError> {
    match bytes {
        [VERSION, a, b, c, d, record @ ..] => {
            if checksum(key, record) != [*a, *b, *c, *d] {
                return Err(failed(format!("the checksum of {key:02x?} is wrong: the disk is damaged")));
            }
            Ok(record)
        }
        [VERSION, ..] | [] => Err(failed(format!("{key:02x?} is cut short"))),
        [version, ..] => Err(failed(format!("version {version} is not one that this program knows"))),
    }
}

/// Whether the value that stands under `key` is as it was written: a record whose checksum is right, a mark,
/// or not one of the state machine's.
#[must_use]
pub fn is_sound(key: &[u8], value: &[u8]) -> bool {
    let is_ours = key.first().is_some_and(|tag| *tag < keys::OTHERS);
    !is_ours || value.is_empty() || sound(key, value).is_ok()
}

fn failed(cause: String) -> StoreError {
    StoreError { doing: "decode a record", cause }
}

fn checksum(key: &[u8], record: &[u8]) -> [u8; 4] {
    [key, &[VERSION], record].iter().fold(0, |sum, part| crc32c::crc32c_append(sum, part)).to_le_bytes()
}

/// The record under `key`.
pub(crate) fn get<T: DeserializeOwned>(view: &dyn View, key: &[u8]) -> Result<Option<T>, StoreError> {
    view.get(key)?.map(|bytes| decode(key, &bytes)).transpose()
}

/// What the next ids are, and how much there is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counters {
    pub next_inode: u64,
    pub next_state: u64,
    /// The low half of the next client id.
    pub next_client: u32,
    /// The high half of every client id: random, so that another cluster's ids and the data servers' are
    /// others.
    pub client_prefix: u32,
    pub next_session: u32,
    pub next_deferred: u64,
    pub next_device: u64,
    /// Inodes in use, orphans and the root among them.
    pub inodes: u64,
    /// Clients that CREATE_SESSION has not confirmed.
    pub unconfirmed: u32,
    /// States of clients, by kind.
    pub states: StateCounts,
    /// Clients that it has confirmed.
    pub clients: u32,
    /// Sessions.
    pub sessions: u32,
}

/// The first fields of an inode.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct InodeHead {
    #[expect(dead_code, reason = "it stands before the generation")]
    id: InodeId,
    pub generation: u32,
}

/// What the clients of one address have, or of one network of IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct AddressUse {
    pub unconfirmed: u32,
    pub clients: u32,
    pub sessions: u32,
}

/// A directory entry, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Name {
    pub cookie: u64,
    pub inode: InodeId,
}

/// A directory entry, by cookie.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CookieEntry {
    pub name: Vec<u8>,
    pub inode: InodeId,
}

/// An extended attribute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Xattr {
    /// Where a listing goes on after it: the object's change attribute when it was made, so never another's.
    pub cookie: u64,
    pub value: Vec<u8>,
}

/// How the record of an [`Xattr`] begins: postcard has a list's length before it, as it has a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct XattrHead {
    pub cookie: u64,
    pub value_bytes: u64,
}

/// A client (RFC 8881, section 18.35.5: the record that its table speaks of).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientRecord {
    /// Its id.
    pub id: ClientId,
    /// `co_ownerid`.
    pub owner: Vec<u8>,
    /// `co_verifier`: another one is another incarnation of the client.
    pub verifier: [u8; 8],
    /// Who made it.
    pub principal: Principal,
    /// Whether CREATE_SESSION confirmed it.
    pub confirmed: bool,
    /// Sequence of the last CREATE_SESSION; the next one is one more.
    pub sequence: u32,
    /// Reply to the last CREATE_SESSION, for its repetition.
    pub created_session: Option<Reply>,
    /// Whether RECLAIM_COMPLETE came.
    pub reclaim_complete: bool,
    /// When its lease was found run out: it has its state by courtesy, until somebody wants what it has.
    pub lapsed: Option<Time>,
    /// Where it has come from with its verifier; first where it was made, which is where it counts.
    pub addresses: Vec<IpAddr>,
}

/// The incarnations of one `co_ownerid`: the one in use, and the one that CREATE_SESSION would put in its
/// place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct OwnerRecord {
    pub confirmed: Option<ClientId>,
    pub unconfirmed: Option<ClientId>,
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// Its id.
    pub id: SessionId,
    /// Whose it is.
    pub client: ClientId,
    /// Its limits.
    pub channels: Channels,
}

/// The last compound of a slot, and what the first change of it that arrived was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SlotRecord {
    pub sequence: u32,
    pub index: u32,
    pub reply: Reply,
    /// Whether the replies to further changes have records of their own.
    pub more: bool,
}

/// A call of NFSv3 that was carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CallRecord {
    /// Its place in the order of calls.
    pub number: u64,
    /// When its first command was carried out.
    pub time: Time,
    /// What its commands were answered: few have more than one.
    pub replies: Vec<(u32, Reply)>,
}

/// Which calls there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct CallOrder {
    pub oldest: u64,
    pub next: u64,
}

/// A metaserver's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServerRecord {
    /// Which life of the member it belongs to; no two of any member have the same.
    pub life: u64,
    /// What the process chose, to be told from the one before it.
    pub nonce: u64,
}

/// The last command of a slot of that session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServerSlot {
    pub sequence: u64,
    pub reply: Reply,
}

/// What a stateid names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// An open.
    Open(OpenState),
    /// The locks of one lock-owner on one file.
    Lock(LockState),
    /// A client's layout of one file.
    Layout(LayoutState),
    /// A client's read delegation of one file.
    Delegation(DelegationState),
}

/// Numbers of states, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StateCounts {
    /// Opens.
    pub opens: u64,
    /// Lock stateids.
    pub locks: u64,
    /// Layouts.
    pub layouts: u64,
    /// Delegations, revoked ones included until they are freed.
    pub delegations: u64,
}

impl StateCounts {
    /// The number of states of the same kind as `state`.
    pub(crate) fn of(&mut self, state: &State) -> &mut u64 {
        match state {
            State::Open(_) => &mut self.opens,
            State::Lock(_) => &mut self.locks,
            State::Layout(_) => &mut self.layouts,
            State::Delegation(_) => &mut self.delegations,
        }
    }
}

impl State {
    /// The stateid as it is now.
    #[must_use]
    pub fn stateid(&self) -> Stateid {
        match self {
            State::Open(open) => open.stateid,
            State::Lock(lock) => lock.stateid,
            State::Layout(layout) => layout.stateid,
            State::Delegation(delegation) => delegation.stateid,
        }
    }

    /// Whose it is.
    #[must_use]
    pub fn client(&self) -> ClientId {
        match self {
            State::Open(open) => open.client,
            State::Lock(lock) => lock.client,
            State::Layout(layout) => layout.client,
            State::Delegation(delegation) => delegation.client,
        }
    }

    /// The file.
    #[must_use]
    pub fn inode(&self) -> InodeId {
        match self {
            State::Open(open) => open.inode,
            State::Lock(lock) => lock.inode,
            State::Layout(layout) => layout.inode,
            State::Delegation(delegation) => delegation.inode,
        }
    }
}

/// What one open-owner of a client has open: one state for each file, whatever the number of OPENs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenState {
    /// Its stateid now.
    pub stateid: Stateid,
    /// The client.
    pub client: ClientId,
    /// The file.
    pub inode: InodeId,
    /// The open-owner.
    pub owner: Vec<u8>,
    /// The union of what was asked for.
    pub access: Share,
    /// The union of what was denied.
    pub deny: Share,
    /// Which pairs of access and deny were opened, one bit for each pair: OPEN_DOWNGRADE may only go to a
    /// union of some of them (RFC 8881, section 18.18.3).
    pub opened: u16,
}

/// The locks of one lock-owner of a client on one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockState {
    /// Its stateid now.
    pub stateid: Stateid,
    /// The client.
    pub client: ClientId,
    /// The file.
    pub inode: InodeId,
    /// The lock-owner.
    pub owner: Vec<u8>,
    /// The open that the first lock came through; its CLOSE ends this state.
    pub open: StateId,
    /// Ranges held.
    pub ranges: u32,
    /// The set that its ranges are kept in: at first its own id, and another one when many ranges went at
    /// once.
    pub set: u64,
}

/// A client's layout of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutState {
    /// Its stateid now.
    pub stateid: Stateid,
    /// The client.
    pub client: ClientId,
    /// The file.
    pub inode: InodeId,
    /// The most that was given.
    pub mode: IoMode,
    /// Whether it is being recalled: the sequence has moved on for that.
    pub recalled: bool,
    /// The file's change attribute at the grant to write, or at a LAYOUTCOMMIT since: to be compared with
    /// [`Unsettled::times_set`].
    pub committed: u64,
    /// The exported directory that the client named the file through first: its handles name it, so a recall
    /// does.
    pub export: InodeId,
}

/// The mark on a file that a client has, or had, a layout to write of: size, times and change attribute of
/// its inode may be older than what the data servers have acknowledged, because a client tells them later
/// (LAYOUTCOMMIT) or, if it dies or only called fdatasync, never.
///
/// ```text
///            grant of a layout to write            the last one goes          Observe, durable
/// settled ──────────────────────────────▶ marked ───────────────────▶ to settle ───────────────▶ settled
///                                           ▲                             │
///                                           └──── the next grant ─────────┘
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsettled {
    /// The last grant of such a layout, by random bits. What was seen before it does not settle the file.
    pub grant: u64,
    /// [`crate::Observation::version`] of what the inode says.
    pub version: u64,
    /// The file's change attribute when its modification time was set last, or 0. A client writes its data
    /// out before it sends the SETATTR, but commits the layout only afterwards, and does not say when it
    /// wrote (Linux never sends `loca_time_modify`): the time that was set, by `cp -p` or `tar x`, then
    /// stands.
    pub times_set: u64,
}

impl Unsettled {
    /// Whether the modification time was set since this layout to write was granted or committed.
    #[must_use]
    pub fn has_times_set(&self, layout: &LayoutState) -> bool {
        layout.mode == IoMode::ReadWrite && self.times_set > layout.committed
    }
}

/// A client's read delegation of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelegationState {
    /// Its stateid.
    pub stateid: Stateid,
    /// The client.
    pub client: ClientId,
    /// The file; of a revoked one perhaps no longer there.
    pub inode: InodeId,
    /// Whether it was taken away, which its client has yet to acknowledge with FREE_STATEID.
    pub revoked: bool,
    /// The exported directory that the client named the file through: its handles name it, so a recall does.
    pub export: InodeId,
}

/// One locked range; where it ends and of which set it is are in its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeldLock {
    pub start: u64,
    pub kind: LockKind,
    pub inode: InodeId,
}

/// What an index says of a locked range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RangeOf {
    /// The lock state that made it, and holds it if its set is still the one in the key.
    pub state: StateId,
    /// Where the range starts, if the key has its end; else where it ends.
    pub other_end: u64,
}

/// A locked range with its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// The range.
    pub range: ByteRange,
    /// Shared or exclusive.
    pub kind: LockKind,
    /// The lock state that holds it.
    pub state: StateId,
}

/// How far the states of a client that ended are removed, in the order of their ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct LeftStates {
    /// The last state that is gone.
    pub after: StateId,
}

/// How far a set of ranges is removed, in the order of their ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct LeftRanges {
    /// Ranges that end here or before are gone.
    pub after: u64,
}

/// How far the lock states under a closed open are removed, in the order of their owners.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeftLocks {
    pub inode: InodeId,
    pub client: ClientId,
    /// Lock states of owners before this one are gone.
    pub from: Vec<u8>,
}

/// How far the layouts of a client that returned all of them are removed, in the order of their ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct LeftLayouts {
    /// Layouts with ids below this are returned.
    pub before: StateId,
    /// States up to this one were looked at.
    pub after: StateId,
}

/// How a file is used, so that an OPEN need not look at every other open of the file to see that none is in
/// its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Use {
    pub opens: u32,
    /// Opens with access to read, and so on.
    pub reading: u32,
    pub writing: u32,
    pub denying_read: u32,
    pub denying_write: u32,
    pub layouts: u32,
    pub delegations: u32,
    /// Layouts to write.
    pub writing_layouts: u32,
}
