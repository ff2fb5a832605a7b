//! One command in the log.
//!
//! ```text
//! ┌─len u32─┬─crc32c u32─┬─index u64─┬─ proposal, postcard, len bytes ─┐   little-endian
//! └─────────┴────────────┴───────────┴─────────────────────────────────┘
//! ```
//!
//! The checksum covers index and proposal. A length of 0 is the preallocated rest of a segment: the end of the log.

use namespace::Proposal;

/// Before each proposal.
pub const HEADER_BYTES: usize = 16;
/// A proposal is a few names and numbers, a symbolic link's target, or the data of a small file: 64 KiB and a little.
pub const PROPOSAL_BYTES_MAX: usize = 1 << 20;

/// A record read back.
#[derive(Debug, PartialEq, Eq)]
pub struct Record {
    /// Its place in the log, from 1.
    pub index: u64,
    /// The command.
    pub proposal: Proposal,
}

/// Appends one record to `out`.
///
/// # Errors
/// When postcard cannot write it, which no proposal of ours causes.
///
/// # Panics
/// On a proposal beyond [`PROPOSAL_BYTES_MAX`]: names and lists are bounded long before.
pub fn encode(index: u64, proposal: &Proposal, out: &mut Vec<u8>) -> Result<(), postcard::Error> {
    // In place, so that the data of a small file are copied once.
    let start = out.len();
    let body = start + HEADER_BYTES;
    out.resize(body, 0);
    *out = postcard::to_extend(proposal, std::mem::take(out))?;
    let len = out.len() - body;
    assert!(len > 0 && len <= PROPOSAL_BYTES_MAX, "proposal of {len} bytes");
    let crc = crc32c::crc32c_append(crc32c::crc32c(&index.to_le_bytes()), &out[body..]);
    out[start..start + 4].copy_from_slice(&(len as u32).to_le_bytes());
    out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
    out[start + 8..body].copy_from_slice(&index.to_le_bytes());
    Ok(())
}

/// The record at the start of `bytes` and its length, if a whole and sound one is there.
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<(Record, usize)> {
    let header = bytes.get(..HEADER_BYTES)?;
    let len = u32::from_le_bytes(header[0..4].try_into().ok()?) as usize;
    let crc = u32::from_le_bytes(header[4..8].try_into().ok()?);
    let index = u64::from_le_bytes(header[8..16].try_into().ok()?);
    if len == 0 || len > PROPOSAL_BYTES_MAX {
        return None;
    }
    let body = bytes.get(HEADER_BYTES..HEADER_BYTES + len)?;
    if crc32c::crc32c_append(crc32c::crc32c(&header[8..16]), body) != crc {
        return None;
    }
    let proposal = postcard::from_bytes(body).ok()?;
    Some((Record { index, proposal }, HEADER_BYTES + len))
}

#[cfg(test)]
mod tests {
    use namespace::{Command, InodeId, Stamp};
    use proptest::prelude::*;

    use super::*;

    fn framed(index: u64, body: &[u8]) -> Vec<u8> {
        let crc = crc32c::crc32c_append(crc32c::crc32c(&index.to_le_bytes()), body);
        [&(body.len() as u32).to_le_bytes(), &crc.to_le_bytes(), &index.to_le_bytes()[..], body].concat()
    }

    fn record() -> Vec<u8> {
        let command = Command::Link { inode: InodeId(7), dir: InodeId::ROOT, name: b"name".to_vec() };
        let proposal = Proposal { stamp: Stamp::default(), origin: None, command };
        let mut bytes = Vec::new();
        encode(3, &proposal, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_record_with_any_bit_changed_or_cut_short_is_none() {
        let whole = record();
        assert_eq!(decode(&whole).unwrap().1, whole.len());
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
        fn any_body_is_a_proposal_that_can_be_written_again_or_none(
            body in prop::collection::vec(any::<u8>(), 1..200),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let mut mutated = record()[HEADER_BYTES..].to_vec();
            let at = at.index(mutated.len());
            mutated[at] = byte;
            for body in [body, mutated] {
                if let Some((found, _)) = decode(&framed(9, &body)) {
                    let mut again = Vec::new();
                    encode(found.index, &found.proposal, &mut again).unwrap();
                    prop_assert_eq!(decode(&again).map(|(record, _)| record), Some(found));
                }
            }
        }
    }
}
