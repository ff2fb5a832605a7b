//! Records of consensus in the store: the last applied entry, the members, and the digest of the state.
//!
//! docs/disk-format.md gives their bytes.

use namespace::Time;
use openraft::LogIdOptionExt;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use store::{Durability, Edit, Store, StoreError, View};

use crate::state::digest::Digest;
use crate::types::{LeaderId, LogId, Members, Membership, StoredMembership};

/// Key of the last applied entry; the state machine leaves these tags to the replica.
pub(crate) const APPLIED_KEY: &[u8] = b"\xffapplied";
pub(crate) const MEMBERS_KEY: &[u8] = b"\xffmembers";
/// Key of the last entry of the snapshot that the store was installed from, written in the same transaction:
/// until the log is purged up to it, the log may end before it.
pub(crate) const INSTALLED_KEY: &[u8] = b"\xffinstalled";
/// Key of the number of entries that the log had on this disk when the last batch was applied; it may have
/// had more. An entry is applied when a majority has it, perhaps before it is on this disk, and the store may
/// reach the disk first.
pub(crate) const WRITTEN_KEY: &[u8] = b"\xffwritten";

/// Key of the digest of the state and the time of the last command.
pub(crate) const STATE_DIGEST_KEY: &[u8] = b"\xffsummed";

/// Digest of the state, and time of the last command.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct StateDigest {
    pub digest: Digest,
    /// Least time of the next command: time does not go back when the leader changes, or a client changes the
    /// metaserver.
    pub time: Time,
}

/// Index after the last command that a view shows.
///
/// # Errors
/// [`StoreError`] when the store fails, or is damaged.
pub fn applied_next(view: &dyn View) -> Result<u64, StoreError> {
    applied(view).map(|(last, _)| last.next_index())
}

/// Last entry that a view has, and the members at that entry.
pub(crate) fn applied(view: &dyn View) -> Result<(Option<LogId>, StoredMembership), StoreError> {
    let log_id = LogId::from;
    let applied: Option<LogIdRecord> = get(view, APPLIED_KEY, "read the applied index")?;
    let members: Option<(Option<LogIdRecord>, Members)> = get(view, MEMBERS_KEY, "read the members")?;
    let (since, members) = members.unwrap_or_default();
    let members =
        Membership::try_from(members).map_err(|cause| StoreError::damaged("read the members", cause))?;
    Ok((applied.map(log_id), StoredMembership::new(since.map(log_id), members)))
}

/// Digest of the state in a view, and time of its last command. Computed if the store has no record of it: a
/// new store, or one that was filled from a backup.
pub(crate) fn state_digest(view: &dyn View) -> Result<StateDigest, StoreError> {
    match get(view, STATE_DIGEST_KEY, "read the digest of the state")? {
        Some(state_digest) => Ok(state_digest),
        None => Ok(StateDigest { digest: Digest::of_view(view)?, time: Time::default() }),
    }
}

/// Decodes the record under [`STATE_DIGEST_KEY`] of a snapshot.
pub(crate) fn decode_state_digest(record: &[u8]) -> Option<StateDigest> {
    decode(record)
}

/// Last entry of the snapshot that the store was installed from, if any.
pub(crate) fn installed(view: &dyn View) -> Result<Option<LogId>, StoreError> {
    let id: Option<LogIdRecord> = get(view, INSTALLED_KEY, "read what was installed")?;
    Ok(id.map(LogId::from))
}

/// Records on disk that the log goes on after `last`, for [`installed`].
pub(crate) fn note_installed(store: &dyn Store, last: Option<LogId>) -> Result<(), StoreError> {
    let Some(last) = last else { return Ok(()) };
    store.batch(Durability::Immediate, &mut |edit: &mut dyn Edit| put_installed(edit, last))
}

/// Puts the record for [`installed`].
pub(crate) fn put_installed(edit: &mut dyn Edit, last: LogId) -> Result<(), StoreError> {
    edit.put(INSTALLED_KEY, &encode(&LogIdRecord::from(last))?)
}

/// Number of entries that the log had on disk, at least, when the store was in this state; None: an old
/// store.
pub(crate) fn written(view: &dyn View) -> Result<Option<u64>, StoreError> {
    get(view, WRITTEN_KEY, "read how far the log was written")
}

/// Puts the records for [`applied`]; `members` only if they changed.
pub(crate) fn put_applied(
    edit: &mut dyn Edit,
    last: Option<LogId>,
    members: Option<&StoredMembership>,
) -> Result<(), StoreError> {
    if let Some(last) = last {
        edit.put(APPLIED_KEY, &encode(&LogIdRecord::from(last))?)?;
    }
    if let Some(members) = members {
        let record = (members.log_id().map(LogIdRecord::from), Members::from(members.membership()));
        edit.put(MEMBERS_KEY, &encode(&record)?)?;
    }
    Ok(())
}

/// Log id in the store.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct LogIdRecord {
    index: u64,
    term: u64,
    leader: u64,
}

impl From<LogIdRecord> for LogId {
    fn from(id: LogIdRecord) -> Self {
        Self { leader_id: LeaderId { term: id.term, node_id: id.leader }, index: id.index }
    }
}

impl From<LogId> for LogIdRecord {
    fn from(id: LogId) -> Self {
        Self { index: id.index, term: id.leader_id.term, leader: id.leader_id.node_id }
    }
}

/// Encodes a record, followed by its CRC-32C, little-endian.
pub(crate) fn encode<T: Serialize>(record: &T) -> Result<Vec<u8>, StoreError> {
    let mut bytes =
        postcard::to_stdvec(record).map_err(|e| StoreError::failed("encode a record of consensus", e))?;
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    Ok(bytes)
}

fn get<T: DeserializeOwned>(
    view: &dyn View,
    key: &[u8],
    doing: &'static str,
) -> Result<Option<T>, StoreError> {
    let Some(bytes) = view.get(key)? else { return Ok(None) };
    decode(&bytes).map(Some).ok_or_else(|| StoreError::damaged(doing, "it is damaged"))
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let (record, crc) = bytes.split_last_chunk()?;
    let sound = crc32c::crc32c(record) == u32::from_le_bytes(*crc);
    sound.then(|| postcard::from_bytes(record).ok()).flatten()
}
