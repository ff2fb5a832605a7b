//! Record of one entry in the log.
//!
//! ```text
//! ┌─salt 8─┬─len u32─┬─crc32c u32─┬─index u64─┬─term u64─┬─leader u64─┬─settled u64─┬─ payload, len bytes ─┐   little-endian
//! └────────┴─────────┴────────────┴───────────┴──────────┴────────────┴─────────────┴──────────────────────┘
//!
//! payload: 0                   first entry of a leader
//!          1 proposal          postcard
//!          2 members           postcard: the members of the group
//! ```
//!
//! The salt is random, and the same for all records of one segment. Payloads contain clients' data unchanged,
//! and segments are reused without being cleared: a checksum alone would not distinguish a record from client
//! data in its form.
//!
//! The checksum covers all bytes after it. A length of 0 is the preallocated rest of a segment: the end of
//! the log. `settled` is the number of entries that were on disk when this one was written: an unsound record
//! below it was acknowledged; one at or above it is the torn end of a write that was never acknowledged.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::types::{Change, Entry, LeaderId, LogId, Members, Membership, Payload};

/// Bytes before each payload.
pub(crate) const HEADER_BYTES: usize = 48;
/// Bytes of the header that the checksum does not cover.
const UNSUMMED_BYTES: usize = 16;
/// Largest payload. A proposal has a few names and numbers, a symbolic link's target, or a small file's data
/// (64 KiB).
pub(crate) const PAYLOAD_BYTES_MAX: usize = 1 << 20;

const BLANK: u8 = 0;
const PROPOSAL: u8 = 1;
const MEMBERS: u8 = 2;

/// First bytes of all records of one segment, unknown to clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Salt(pub [u8; 8]);

impl Salt {
    /// Marks the record at the start of `bytes` as part of this segment.
    ///
    /// # Panics If `bytes` is shorter than a salt.
    pub(crate) fn put(self, bytes: &mut [u8]) {
        bytes[..self.0.len()].copy_from_slice(&self.0);
    }
}

/// Decoded record.
#[derive(Debug, PartialEq)]
pub(crate) struct Record {
    pub entry: Entry,
    pub settled: u64,
    /// Length on disk.
    pub len: usize,
}

/// Appends one record to `out`, without its salt: see [`Salt::put`].
///
/// # Errors When postcard cannot encode the entry, which none of ours causes.
///
/// # Panics On a payload beyond [`PAYLOAD_BYTES_MAX`]: names and lists are bounded before.
pub(crate) fn encode(entry: &Entry, settled: u64, out: &mut Vec<u8>) -> Result<(), postcard::Error> {
    // In place, so that a small file's data are copied once.
    let start = out.len();
    let body = start + HEADER_BYTES;
    out.resize(body, 0);
    match &entry.payload {
        Payload::Blank => out.push(BLANK),
        Payload::Normal(change) => {
            out.push(PROPOSAL);
            *out = postcard::to_extend(&*change.0, std::mem::take(out))?;
        }
        Payload::Membership(membership) => {
            out.push(MEMBERS);
            *out = postcard::to_extend(&Members::from(membership), std::mem::take(out))?;
        }
    }
    let len = out.len() - body;
    assert!(len <= PAYLOAD_BYTES_MAX, "payload of {len} bytes");
    let LogId { leader_id, index } = entry.log_id;
    let numbers = [index, leader_id.term, leader_id.node_id, settled];
    let summed = start + UNSUMMED_BYTES;
    for (place, number) in out[summed..body].chunks_exact_mut(8).zip(numbers) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    let crc = crc32c::crc32c(&out[summed..]);
    out[start + 8..start + 12].copy_from_slice(&(len as u32).to_le_bytes());
    out[start + 12..summed].copy_from_slice(&crc.to_le_bytes());
    Ok(())
}

/// The record at the start of `bytes`, if it is whole, sound, and has the segment's salt.
#[must_use]
pub(crate) fn decode(bytes: &[u8], salt: Salt) -> Option<Record> {
    let (log_id, settled, body) = whole(bytes, salt)?;
    let payload = payload(body)?;
    Some(Record { entry: Entry { log_id, payload }, settled, len: HEADER_BYTES + body.len() })
}

/// Index of the record at the start of `bytes` if its checksum is right but its payload is of another
/// version: a command or a field that was added later. Such a record is neither damaged nor torn.
#[must_use]
pub(crate) fn unknown(bytes: &[u8], salt: Salt) -> Option<u64> {
    let (log_id, _, body) = whole(bytes, salt)?;
    payload(body).is_none().then_some(log_id.index)
}

/// Header and payload of a record whose checksum is right.
fn whole(bytes: &[u8], salt: Salt) -> Option<(LogId, u64, &[u8])> {
    let header = bytes.get(..HEADER_BYTES)?;
    let len = u32::from_le_bytes(header[8..12].try_into().ok()?) as usize;
    let crc = u32::from_le_bytes(header[12..16].try_into().ok()?);
    if !header.starts_with(&salt.0) || len == 0 || len > PAYLOAD_BYTES_MAX {
        return None;
    }
    let summed = bytes.get(UNSUMMED_BYTES..HEADER_BYTES + len)?;
    if crc32c::crc32c(summed) != crc {
        return None;
    }
    let number = |n: usize| summed[8 * n..8 * n + 8].try_into().ok().map(u64::from_le_bytes);
    let (index, term, node_id, settled) = (number(0)?, number(1)?, number(2)?, number(3)?);
    let log_id = LogId { leader_id: LeaderId { term, node_id }, index };
    Some((log_id, settled, &bytes[HEADER_BYTES..HEADER_BYTES + len]))
}

fn payload(bytes: &[u8]) -> Option<Payload> {
    let (kind, body) = bytes.split_first()?;
    match *kind {
        BLANK if body.is_empty() => Some(Payload::Blank),
        PROPOSAL => Some(Payload::Normal(Change(Arc::new(all_of(body)?)))),
        MEMBERS => Some(Payload::Membership(Membership::try_from(all_of::<Members>(body)?).ok()?)),
        _ => None,
    }
}

/// Decodes `body` with postcard; None if bytes remain: another version may have added a field at the end.
fn all_of<T: DeserializeOwned>(body: &[u8]) -> Option<T> {
    postcard::take_from_bytes(body).ok().filter(|(_, rest)| rest.is_empty()).map(|(read, _)| read)
}

/// Decodes the record at the start of `bytes`, if it is sound, and encodes it again, for the fuzzer to
/// compare with the input.
#[must_use]
pub fn read_and_write(bytes: &[u8]) -> Option<Vec<u8>> {
    let salt = Salt(*bytes.first_chunk()?);
    let found = decode(bytes, salt)?;
    let mut again = Vec::new();
    encode(&found.entry, found.settled, &mut again).ok()?;
    salt.put(&mut again);
    Some(again)
}

#[cfg(test)]
mod tests {
    use namespace::{Command, InodeId, Proposal, Stamp};
    use proptest::prelude::*;

    use super::*;

    const SALT: Salt = Salt(*b"of salt!");

    fn framed(body: &[u8]) -> Vec<u8> {
        let rest = [&[0; 32], body].concat();
        let (len, crc) = ((body.len() as u32).to_le_bytes(), crc32c::crc32c(&rest).to_le_bytes());
        [&SALT.0, &len[..], &crc, &rest].concat()
    }

    fn read(bytes: &[u8]) -> Option<Record> {
        decode(bytes, SALT)
    }

    fn record() -> Vec<u8> {
        let command = Command::Link { inode: InodeId(7), dir: InodeId::ROOT, name: b"name".to_vec() };
        let proposal = Proposal::new(Stamp::default(), None, command);
        let log_id = LogId { leader_id: LeaderId { term: 5, node_id: 2 }, index: 3 };
        let entry = Entry { log_id, payload: Payload::Normal(Change(Arc::new(proposal))) };
        let mut bytes = Vec::new();
        encode(&entry, 2, &mut bytes).unwrap();
        SALT.put(&mut bytes);
        bytes
    }

    #[test]
    fn a_record_with_any_bit_changed_or_cut_short_is_none() {
        let whole = record();
        let found = read(&whole).unwrap();
        assert_eq!((found.len, found.settled, found.entry.log_id.leader_id.term), (whole.len(), 2, 5));
        for bit in 0..whole.len() * 8 {
            let mut changed = whole.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&changed), None, "bit {bit}");
        }
        assert!((0..whole.len()).all(|len| read(&whole[..len]).is_none()));
    }

    proptest! {
        /// A right checksum over a wrong body, which only a defect of ours could write.
        #[test]
        fn any_body_is_an_entry_that_can_be_written_again_or_none(
            body in prop::collection::vec(any::<u8>(), 1..200),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let mut mutated = record()[HEADER_BYTES..].to_vec();
            let at = at.index(mutated.len());
            mutated[at] = byte;
            for body in [body, mutated] {
                if let Some(found) = read(&framed(&body)) {
                    let mut again = Vec::new();
                    encode(&found.entry, found.settled, &mut again).unwrap();
                    SALT.put(&mut again);
                    prop_assert_eq!(read(&again).map(|record| record.entry), Some(found.entry));
                }
            }
        }
    }
}
