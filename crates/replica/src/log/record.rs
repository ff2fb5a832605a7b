//! One entry in the log.
//!
//! ```text
//! ┌─len u32─┬─crc32c u32─┬─index u64─┬─term u64─┬─leader u64─┬─settled u64─┬─ payload, len bytes ─┐   little-endian
//! └─────────┴────────────┴───────────┴──────────┴────────────┴─────────────┴──────────────────────┘
//!
//! payload: 0                   a leader began
//!          1 proposal          postcard
//!          2 members           postcard: who belongs to the group
//! ```
//!
//! The checksum covers all that follows it. A length of 0 is the preallocated rest of a segment: the end of the log.
//! `settled` is how many entries had reached the disk when this one was written: an unsound record below it was
//! acknowledged, one that is not is the torn end of a write that nobody was told of.

use std::sync::Arc;

use crate::types::{Change, Entry, LeaderId, LogId, Members, Membership, Payload};

/// Before each payload.
pub(crate) const HEADER_BYTES: usize = 40;
/// A proposal is a few names and numbers, a symbolic link's target, or the data of a small file: 64 KiB and a little.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 1 << 20;

const BLANK: u8 = 0;
const PROPOSAL: u8 = 1;
const MEMBERS: u8 = 2;

/// A record read back.
#[derive(Debug, PartialEq)]
pub(crate) struct Record {
    pub entry: Entry,
    pub settled: u64,
    /// Its length on disk.
    pub len: usize,
}

/// Appends one record to `out`.
///
/// # Errors
/// When postcard cannot write it, which no entry of ours causes.
///
/// # Panics
/// On a payload beyond [`PAYLOAD_BYTES_MAX`]: names and lists are bounded long before.
pub(crate) fn encode(entry: &Entry, settled: u64, out: &mut Vec<u8>) -> Result<(), postcard::Error> {
    // In place, so that the data of a small file are copied once.
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
    for (place, number) in out[start + 8..body].chunks_exact_mut(8).zip(numbers) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    let crc = crc32c::crc32c(&out[start + 8..]);
    out[start..start + 4].copy_from_slice(&(len as u32).to_le_bytes());
    out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
    Ok(())
}

/// The record at the start of `bytes`, if a whole and sound one is there.
#[must_use]
pub(crate) fn decode(bytes: &[u8]) -> Option<Record> {
    let header = bytes.get(..HEADER_BYTES)?;
    let len = u32::from_le_bytes(header[0..4].try_into().ok()?) as usize;
    let crc = u32::from_le_bytes(header[4..8].try_into().ok()?);
    if len == 0 || len > PAYLOAD_BYTES_MAX {
        return None;
    }
    let summed = bytes.get(8..HEADER_BYTES + len)?;
    if crc32c::crc32c(summed) != crc {
        return None;
    }
    let number = |n: usize| header[8 + 8 * n..16 + 8 * n].try_into().ok().map(u64::from_le_bytes);
    let (index, term, node_id, settled) = (number(0)?, number(1)?, number(2)?, number(3)?);
    let (kind, body) = bytes[HEADER_BYTES..HEADER_BYTES + len].split_first()?;
    let payload = match *kind {
        BLANK if body.is_empty() => Payload::Blank,
        PROPOSAL => Payload::Normal(Change(Arc::new(postcard::from_bytes(body).ok()?))),
        MEMBERS => {
            let members: Members = postcard::from_bytes(body).ok()?;
            Payload::Membership(Membership::try_from(members).ok()?)
        }
        _ => return None,
    };
    let log_id = LogId { leader_id: LeaderId { term, node_id }, index };
    Some(Record { entry: Entry { log_id, payload }, settled, len: HEADER_BYTES + len })
}

/// Reads the record at the start of `bytes`, if a sound one is there, and writes it again: what a fuzzer holds against
/// the input.
#[must_use]
pub fn read_and_write(bytes: &[u8]) -> Option<Vec<u8>> {
    let found = decode(bytes)?;
    let mut again = Vec::new();
    encode(&found.entry, found.settled, &mut again).ok()?;
    Some(again)
}

#[cfg(test)]
mod tests {
    use namespace::{Command, InodeId, Proposal, Stamp};
    use proptest::prelude::*;

    use super::*;

    fn framed(body: &[u8]) -> Vec<u8> {
        let rest = [&[0; 32], body].concat();
        [&(body.len() as u32).to_le_bytes(), &crc32c::crc32c(&rest).to_le_bytes(), &rest[..]].concat()
    }

    fn record() -> Vec<u8> {
        let command = Command::Link { inode: InodeId(7), dir: InodeId::ROOT, name: b"name".to_vec() };
        let proposal = Proposal { stamp: Stamp::default(), origin: None, command };
        let log_id = LogId { leader_id: LeaderId { term: 5, node_id: 2 }, index: 3 };
        let entry = Entry { log_id, payload: Payload::Normal(Change(Arc::new(proposal))) };
        let mut bytes = Vec::new();
        encode(&entry, 2, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_record_with_any_bit_changed_or_cut_short_is_none() {
        let whole = record();
        let found = decode(&whole).unwrap();
        assert_eq!((found.len, found.settled, found.entry.log_id.leader_id.term), (whole.len(), 2, 5));
        for bit in 0..whole.len() * 8 {
            let mut changed = whole.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&changed), None, "bit {bit}");
        }
        assert!((0..whole.len()).all(|len| decode(&whole[..len]).is_none()));
    }

    proptest! {
        /// With a checksum that holds, as only a fault of ours could write it.
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
                if let Some(found) = decode(&framed(&body)) {
                    let mut again = Vec::new();
                    encode(&found.entry, found.settled, &mut again).unwrap();
                    prop_assert_eq!(decode(&again).map(|record| record.entry), Some(found.entry));
                }
            }
        }
    }
}
