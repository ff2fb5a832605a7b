//! Records: the values of the store.
//!
//! ```text
//! │version 1│crc32c 4, little-endian│ record, postcard │
//! │version 2│crc32c 4, little-endian│ stamp 4, big-endian │ record, postcard │
//! ```
//!
//! The checksum is over key, version, stamp and record: a damaged value, or a value under another key, is an error
//! of the read, and is never used.
//!
//! The stamp of a record is the number of snapshots that its volume had had at its last change: see `snapshot/history.rs`.
//! Records of a volume without snapshots, and those of no volume, have version 1.
//!
//! A record whose format must change gets a new version byte and a reader for the old one; stores are never
//! rewritten at once.

mod states;

use std::net::IpAddr;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use store::{StoreError, View};

use crate::{Channels, ClientId, InodeId, Principal, Reply, SessionId, Time, keys};

pub use self::states::{
    DelegationKind, DelegationState, Held, LayoutState, LockState, OpenState, State, StateCounts, Unsettled,
};
pub(crate) use self::states::{HeldLock, LeftLayouts, LeftLocks, LeftRanges, LeftStates, RangeOf, Use};

/// Version of a record without a stamp.
const VERSION: u8 = 1;
/// Version of a record with a stamp.
const STAMPED: u8 = 2;

/// Bytes of version and checksum.
const HEADER_BYTES: usize = 5;
/// Bytes of version, checksum and stamp.
const STAMPED_HEADER_BYTES: usize = 9;

/// Bytes of a record under `key`.
pub(crate) fn encode<T: Serialize>(key: &[u8], record: &T) -> Result<Vec<u8>, StoreError> {
    let mut bytes = postcard::to_extend(record, vec![VERSION, 0, 0, 0, 0])
        .map_err(|cause| StoreError::failed("encode a record", cause))?;
    let sum = checksum(key, VERSION, &bytes[HEADER_BYTES..]);
    bytes[1..HEADER_BYTES].copy_from_slice(&sum);
    Ok(bytes)
}

/// Bytes of inline data under `key`: the raw data, after the same header.
pub(crate) fn encode_data(key: &[u8], data: &[u8]) -> Vec<u8> {
    let header = [&[VERSION][..], &checksum(key, VERSION, data)].concat();
    [&header, data].concat()
}

/// Decodes the record in `bytes`, the value of `key`.
pub(crate) fn decode<T: DeserializeOwned>(key: &[u8], bytes: &[u8]) -> Result<T, StoreError> {
    postcard::from_bytes(sound(key, bytes)?).map_err(|cause| damaged(cause.to_string()))
}

/// Decodes the head of the record in `bytes`, a struct of its first fields. The rest is only checked for
/// damage.
pub(crate) fn decode_head<T: DeserializeOwned>(key: &[u8], bytes: &[u8]) -> Result<T, StoreError> {
    let head = postcard::take_from_bytes(sound(key, bytes)?);
    head.map(|(head, _)| head).map_err(|cause| damaged(cause.to_string()))
}

/// Returns the inline data in `bytes`, the value of `key`.
pub(crate) fn decode_data(key: &[u8], bytes: Vec<u8>) -> Result<Bytes, StoreError> {
    let at = bytes.len() - sound(key, &bytes)?.len();
    Ok(Bytes::from(bytes).slice(at..))
}

/// Stamp of a value; 0 if it has none.
pub(crate) fn stamp_of(value: &[u8]) -> u32 {
    match value {
        [STAMPED, _, _, _, _, a, b, c, d, ..] => u32::from_be_bytes([*a, *b, *c, *d]),
        _ => 0,
    }
}

/// The value with another stamp, under another key.
///
/// # Errors
/// [`StoreError`] if it is damaged.
pub(crate) fn restamp(
    (key, value): (&[u8], &[u8]),
    new_key: &[u8],
    stamp: u32,
) -> Result<Vec<u8>, StoreError> {
    Ok(with_stamp(new_key, sound(key, value)?, stamp))
}

/// A value of this program with another stamp.
pub(crate) fn stamped(key: &[u8], value: &[u8], stamp: u32) -> Vec<u8> {
    let header_bytes = if value.first() == Some(&STAMPED) { STAMPED_HEADER_BYTES } else { HEADER_BYTES };
    with_stamp(key, value.get(header_bytes..).unwrap_or_default(), stamp)
}

fn with_stamp(key: &[u8], record: &[u8], stamp: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(STAMPED_HEADER_BYTES + record.len());
    match stamp {
        0 => bytes.extend_from_slice(&[VERSION, 0, 0, 0, 0]),
        _ => {
            bytes.extend_from_slice(&[STAMPED, 0, 0, 0, 0]);
            bytes.extend_from_slice(&stamp.to_be_bytes());
        }
    }
    bytes.extend_from_slice(record);
    let sum = checksum(key, bytes[0], &bytes[HEADER_BYTES..]);
    bytes[1..HEADER_BYTES].copy_from_slice(&sum);
    bytes
}

/// Checks the header, and returns the bytes of the record.
fn sound<'a>(key: &[u8], bytes: &'a [u8]) -> Result<&'a [u8], StoreError> {
    let header_bytes = if bytes.first() == Some(&STAMPED) { STAMPED_HEADER_BYTES } else { HEADER_BYTES };
    match bytes {
        [version @ (VERSION | STAMPED), a, b, c, d, rest @ ..] if bytes.len() >= header_bytes => {
            if checksum(key, *version, rest) != [*a, *b, *c, *d] {
                return Err(damaged(format!("the checksum of {key:02x?} is wrong: the disk is damaged")));
            }
            Ok(&bytes[header_bytes..])
        }
        [VERSION | STAMPED, ..] | [] => Err(damaged(format!("{key:02x?} is cut short"))),
        [version, ..] => {
            Err(StoreError::failed(DECODE, format!("version {version} is not one that this program knows")))
        }
    }
}

/// True if the value of `key` is undamaged: a record with the right checksum, a mark, or a value that is not
/// the state machine's.
#[must_use]
pub fn is_sound(key: &[u8], value: &[u8]) -> bool {
    let is_ours = key.first().is_some_and(|tag| *tag < keys::OTHERS);
    // What is kept for a snapshot has the checksum of the record that it was.
    let key = keys::kept(key).map_or(key, |(kept, _)| kept);
    !is_ours || value.is_empty() || sound(key, value).is_ok()
}

const DECODE: &str = "decode a record";

/// True for the error of a record that cannot be read, whatever the store can do.
pub(crate) fn is_of_record(error: &StoreError) -> bool {
    error.doing == DECODE
}

fn damaged(cause: String) -> StoreError {
    StoreError::damaged(DECODE, cause)
}

fn checksum(key: &[u8], version: u8, rest: &[u8]) -> [u8; 4] {
    [key, &[version], rest].iter().fold(0, |sum, part| crc32c::crc32c_append(sum, part)).to_le_bytes()
}

/// Reads the record of `key`.
pub(crate) fn get<T: DeserializeOwned>(view: &dyn View, key: &[u8]) -> Result<Option<T>, StoreError> {
    view.get(key)?.map(|bytes| decode(key, &bytes)).transpose()
}

/// Next ids, and numbers of records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counters {
    /// Of a store from before volumes had records: the next inode of the first one.
    pub next_inode: u64,
    pub next_state: u64,
    /// Low half of the next client id.
    pub next_client: u32,
    /// High half of every client id: random, so that the ids differ from those of other clusters and of data
    /// servers.
    pub client_prefix: u32,
    pub next_session: u32,
    pub next_deferred: u64,
    pub next_device: u64,
    /// Inodes in use of all volumes, orphans and roots included.
    pub inodes: u64,
    /// Unconfirmed clients, before CREATE_SESSION.
    pub unconfirmed: u32,
    /// States of clients, by kind.
    pub states: StateCounts,
    /// Confirmed clients.
    pub clients: u32,
    /// Sessions.
    pub sessions: u32,
}

/// First fields of an inode.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct InodeHead {
    #[expect(dead_code, reason = "it stands before the generation")]
    id: InodeId,
    pub generation: u32,
}

/// Counts of one address, or of one IPv6 network.
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
    /// Cookie for the next page of a listing: the object's change attribute at the creation, so it is unique.
    pub cookie: u64,
    pub value: Vec<u8>,
}

/// Beginning of the record of an [`Xattr`]: postcard encodes a list's length before the list, as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct XattrHead {
    pub cookie: u64,
    pub value_bytes: u64,
}

/// Record of a client (the record of the table in RFC 8881, section 18.35.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientRecord {
    /// Its id.
    pub id: ClientId,
    /// `co_ownerid`.
    pub owner: Vec<u8>,
    /// `co_verifier`: a different value is another incarnation of the client.
    pub verifier: [u8; 8],
    /// Principal of its EXCHANGE_ID.
    pub principal: Principal,
    /// True if CREATE_SESSION has confirmed it.
    pub confirmed: bool,
    /// Sequence of the last CREATE_SESSION; the next one is one more.
    pub sequence: u32,
    /// Reply to the last CREATE_SESSION, for a retry.
    pub created_session: Option<Reply>,
    /// True after RECLAIM_COMPLETE.
    pub reclaim_complete: bool,
    /// Time at which its lease was found to have run out: it keeps its state by courtesy until a conflict.
    pub lapsed: Option<Time>,
    /// Addresses from which it has sent its verifier. The first is the address of its creation, at which it
    /// is counted.
    pub addresses: Vec<IpAddr>,
}

/// Incarnations of one `co_ownerid`: the one in use, and those of which CREATE_SESSION would put one in its
/// place, in the order of their making: one of each address.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct OwnerRecord {
    pub confirmed: Option<ClientId>,
    pub unconfirmed: Vec<ClientId>,
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// Its id.
    pub id: SessionId,
    /// Client.
    pub client: ClientId,
    /// Limits.
    pub channels: Channels,
}

/// Last compound of a slot, with the reply to its first change that arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SlotRecord {
    pub sequence: u32,
    pub index: u32,
    pub reply: Reply,
    /// True if there are records with the replies to further changes.
    pub more: bool,
}

/// NFSv3 call that was processed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CallRecord {
    /// Number in the order of calls.
    pub number: u64,
    /// Time of its first command.
    pub time: Time,
    /// Replies to its commands; most calls have one.
    pub replies: Vec<(u32, Reply)>,
}

/// Range of the numbers of recorded calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct CallOrder {
    pub oldest: u64,
    pub next: u64,
}

/// Session of a metaserver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServerRecord {
    /// Incarnation of the member's process; unique among all members.
    pub life: u64,
    /// Random number of the process, which distinguishes it from the process before.
    pub nonce: u64,
}

/// Last command of a slot of a metaserver's session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServerSlot {
    pub sequence: u64,
    pub reply: Reply,
}
