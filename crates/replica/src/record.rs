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
