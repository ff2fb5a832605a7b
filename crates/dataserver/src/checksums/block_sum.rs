//! The sum of one block, and its 8 bytes in the sum file.
//!
//! ```text
//! │ CRC-32C u32 │ len, 17 bits │ check, 14 bits │ 1, 1 bit │   little-endian; len in the low bits
//! ```
//!
//! The sum covers the first `len` bytes of the block. All bytes after them are zeros, or beyond the end of
//! the object. A block of zeros has no sum: its 8 bytes are zeros. So an append goes on with the sum, and an
//! object that grows over a hole changes no sum.

/// Bytes of a block. A sum takes 8 bytes: 128 KiB for 1 GiB.
pub const BLOCK_BYTES: usize = 64 * 1024;
/// [`BLOCK_BYTES`] as an offset.
pub(crate) const BLOCK: u64 = BLOCK_BYTES as u64;
/// Bytes of a sum in the sum file.
pub(crate) const SUM_BYTES: usize = 8;

const LEN_BITS: u32 = 17;
const LEN_MASK: u32 = (1 << LEN_BITS) - 1;
const CHECK_MASK: u32 = (1 << 14) - 1;
/// Set in each sum that is not that of zeros: so no flipped bit makes a sum out of eight zero bytes.
const PRESENT: u32 = 1 << 31;
/// Length that says: the block is damaged.
const DAMAGED: u32 = LEN_MASK;

/// What is known of the bytes of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockSum {
    /// All bytes are zeros.
    Zeros,
    /// CRC-32C of the first `len` bytes, 1 to 65,536; the bytes after them are zeros.
    Crc {
        /// CRC-32C.
        crc: u32,
        /// Bytes that it covers.
        len: u32,
    },
    /// The block was found damaged, and a part of it was cut off or changed since.
    Damaged,
}

/// The eight bytes are not those of any sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unreadable;

impl BlockSum {
    /// The sum of a block with these bytes, of which the last ones may be zeros.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let len = bytes.len().min(BLOCK_BYTES);
        if len == 0 || is_zeros(&bytes[..len]) {
            return Self::Zeros;
        }
        Self::Crc { crc: crc32c::crc32c(&bytes[..len]), len: len as u32 }
    }

    /// Whether `bytes` are those of the block: all that the object has of it.
    pub(crate) fn matches(self, bytes: &[u8]) -> bool {
        match self {
            Self::Zeros => is_zeros(bytes),
            Self::Crc { crc, len } => {
                let Some((summed, rest)) = bytes.split_at_checked(len as usize) else { return false };
                crc32c::crc32c(summed) == crc && is_zeros(rest)
            }
            Self::Damaged => false,
        }
    }

    /// Bytes of the block that may be others than zeros.
    pub(crate) fn len(self) -> usize {
        match self {
            Self::Zeros => 0,
            Self::Crc { len, .. } => len as usize,
            Self::Damaged => BLOCK_BYTES,
        }
    }

    /// The sum after `pieces` were written at `from`, at or after all that it covers.
    pub(crate) fn appended<'a>(self, from: usize, pieces: impl Iterator<Item = &'a [u8]>) -> Self {
        let (mut crc, len) = match self {
            Self::Crc { crc, len } => (crc, len as usize),
            Self::Zeros | Self::Damaged => (0, 0),
        };
        crc = crc32c::crc32c_append(crc, &ZEROS[..from.saturating_sub(len)]);
        let mut end = from;
        for piece in pieces {
            crc = crc32c::crc32c_append(crc, piece);
            end += piece.len();
        }
        Self::Crc { crc, len: end as u32 }
    }

    pub(crate) fn to_bytes(self, block: u64) -> [u8; SUM_BYTES] {
        let (crc, len) = match self {
            Self::Zeros => return [0; SUM_BYTES],
            Self::Crc { crc, len } => (crc, len),
            Self::Damaged => (0, DAMAGED),
        };
        let word = len | check(crc, len, block) << LEN_BITS | PRESENT;
        (u64::from(word) << 32 | u64::from(crc)).to_le_bytes()
    }

    pub(crate) fn from_bytes(bytes: [u8; SUM_BYTES], block: u64) -> Result<Self, Unreadable> {
        let number = u64::from_le_bytes(bytes);
        if number == 0 {
            return Ok(Self::Zeros);
        }
        let (crc, len) = (number as u32, (number >> 32) as u32 & LEN_MASK);
        let sum = match len {
            DAMAGED => Self::Damaged,
            len if (1..=BLOCK_BYTES as u32).contains(&len) => Self::Crc { crc, len },
            _ => return Err(Unreadable),
        };
        if sum.to_bytes(block) == bytes { Ok(sum) } else { Err(Unreadable) }
    }
}

/// Check of a sum itself: a flipped bit in it is told apart from one in the data, and a sum that was put in
/// the wrong place is none.
fn check(crc: u32, len: u32, block: u64) -> u32 {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    bytes[4..8].copy_from_slice(&len.to_le_bytes());
    bytes[8..].copy_from_slice(&block.to_le_bytes());
    crc32c::crc32c(&bytes) & CHECK_MASK
}

/// A block of zeros.
pub(crate) static ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

pub(crate) fn is_zeros(bytes: &[u8]) -> bool {
    // A comparison with zeros is memcmp, which takes 32 bytes at a time.
    bytes.chunks(BLOCK_BYTES).all(|chunk| chunk == &ZEROS[..chunk.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_in_a_sum_is_seen_whatever_the_sum() {
        for sum in [
            BlockSum::Zeros,
            BlockSum::Damaged,
            BlockSum::of(b"a"),
            BlockSum::of(&[7; BLOCK_BYTES]),
            BlockSum::Crc { crc: 0, len: 4096 },
            BlockSum::Crc { crc: u32::MAX, len: BLOCK_BYTES as u32 },
        ] {
            for block in [0, 1, 77, u64::MAX] {
                let bytes = sum.to_bytes(block);
                assert_eq!(BlockSum::from_bytes(bytes, block), Ok(sum));
                for bit in 0..64 {
                    let mut altered = bytes;
                    altered[bit / 8] ^= 1 << (bit % 8);
                    assert_eq!(BlockSum::from_bytes(altered, block), Err(Unreadable), "{sum:?} bit {bit}");
                }
            }
        }
        let moved = BlockSum::of(b"a").to_bytes(3);
        assert_eq!(BlockSum::from_bytes(moved, 4), Err(Unreadable));
    }

    #[test]
    fn a_sum_covers_its_bytes_and_the_zeros_after_them() {
        let sum = BlockSum::of(b"abc");
        assert!(sum.matches(b"abc") && sum.matches(b"abc\0\0"));
        for other in [&b"ab"[..], b"abd", b"abc\0x", b""] {
            assert!(!sum.matches(other), "{other:?}");
        }
        assert!(BlockSum::Zeros.matches(b"") && BlockSum::Zeros.matches(&[0; BLOCK_BYTES]));
        assert!(!BlockSum::Zeros.matches(b"\0\0\x01"));
        assert!(!BlockSum::Damaged.matches(b""));
        assert_eq!(BlockSum::of(&[0; 100]), BlockSum::Zeros);
    }

    #[test]
    fn an_append_goes_on_with_the_sum_over_a_gap_of_zeros() {
        let pieces = [&b"de"[..], b"f"];
        let sum = BlockSum::of(b"abc").appended(5, pieces.into_iter());
        assert_eq!(sum, BlockSum::of(b"abc\0\0def"));
        let sum = BlockSum::Zeros.appended(2, pieces.into_iter());
        assert_eq!(sum, BlockSum::of(b"\0\0def"));
        assert!(sum.matches(b"\0\0def\0"));
    }
}
