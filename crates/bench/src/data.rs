//! Content of files: incompressible bytes from a seed and their offset, so that a reader can compute any part
//! again and report the first wrong byte.
//!
//! Word `i` of a file is one multiplication of a counter (the output function of wyrand, which passes the
//! usual tests of randomness): about one cycle for eight bytes, several GB/s on one core, faster than any
//! file system.

const STEP: u64 = 0xa076_1d64_78bd_642f;
const MIX: u64 = 0xe703_7ed1_a0b4_28db;
const WORD: usize = size_of::<u64>();
/// Length of a comparison, which fits the first-level cache.
const PIECE: usize = 4096;

/// Fills `into` with the bytes of file `seed` from `offset`.
pub fn fill(seed: u64, offset: u64, into: &mut [u8]) {
    let skip = (offset % WORD as u64) as usize;
    let mut index = offset / WORD as u64;
    let (head, rest) = into.split_at_mut(if skip == 0 { 0 } else { into.len().min(WORD - skip) });
    if !head.is_empty() {
        head.copy_from_slice(&word(seed, index)[skip..skip + head.len()]);
        index += 1;
    }
    let mut words = rest.chunks_exact_mut(WORD);
    for place in &mut words {
        place.copy_from_slice(&word(seed, index));
        index += 1;
    }
    let tail = words.into_remainder();
    tail.copy_from_slice(&word(seed, index)[..tail.len()]);
}

/// First byte of `found`, read at `offset`, that differs from file `seed`.
#[must_use]
pub fn first_wrong(seed: u64, offset: u64, found: &[u8]) -> Option<Wrong> {
    let mut expected = [0; PIECE];
    let mut at = offset;
    for piece in found.chunks(PIECE) {
        let expected = &mut expected[..piece.len()];
        fill(seed, at, expected);
        if piece != expected {
            let index = piece.iter().zip(expected.iter()).position(|(a, b)| a != b)?;
            return Some(Wrong { offset: at + index as u64, found: piece[index], expected: expected[index] });
        }
        at += piece.len() as u64;
    }
    None
}

/// Derives a seed for each file of a run: `what` is a path, or a path and the number of its rewrite.
#[must_use]
pub fn seed(run: u64, what: &str) -> u64 {
    what.bytes().fold(u64::from_le_bytes(word(run, 0)), |seed, byte| {
        u64::from_le_bytes(word(seed, u64::from(byte) + 1))
    })
}

/// Byte that differs from the written one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrong {
    /// Offset in the file.
    pub offset: u64,
    /// Byte read.
    pub found: u8,
    /// Byte written.
    pub expected: u8,
}

fn word(seed: u64, index: u64) -> [u8; WORD] {
    let counter = seed.wrapping_add(index.wrapping_mul(STEP));
    let product = u128::from(counter) * u128::from(counter ^ MIX);
    ((product >> 64) as u64 ^ product as u64).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_of_a_file_is_the_same_as_in_the_whole() {
        let mut whole = vec![0; 10_000];
        fill(7, 0, &mut whole);
        for (from, length) in [(0, 0), (0, 3), (1, 2), (3, 5), (7, 1), (8, 16), (4001, 3901), (9999, 1)] {
            let mut part = vec![0; length];
            fill(7, from as u64, &mut part);
            assert_eq!(part, whole[from..from + length], "{length} from {from}");
            assert_eq!(first_wrong(7, from as u64, &part), None);
        }
    }

    #[test]
    fn one_flipped_bit_is_found_wherever_it_is() {
        let mut data = vec![0; 10_001];
        fill(7, 5, &mut data);
        for index in [0, 1, 4095, 4096, 8191, 10_000] {
            data[index] ^= 1;
            let wrong = first_wrong(7, 5, &data).unwrap();
            assert_eq!((wrong.offset, wrong.found), (5 + index as u64, data[index]));
            assert_eq!(wrong.expected, data[index] ^ 1);
            data[index] ^= 1;
        }
        assert_eq!(first_wrong(8, 5, &data).map(|wrong| wrong.offset), Some(5), "another seed");
    }

    /// All byte values are equally frequent, also at each of the eight positions in a word: the data are
    /// incompressible.
    #[test]
    fn the_bytes_are_spread_evenly() {
        let mut data = vec![0; 8 << 20];
        fill(1, 0, &mut data);
        for place in 0..WORD {
            let mut counts = [0_i64; 256];
            data.iter().skip(place).step_by(WORD).for_each(|byte| counts[usize::from(*byte)] += 1);
            let expected = (data.len() / WORD / 256) as i64;
            let squares: i64 = counts.iter().map(|count| (count - expected).pow(2)).sum();
            // Chi squared with 255 degrees of freedom exceeds 360 once in 50,000 times.
            assert!(squares / expected < 360, "place {place}: {}", squares / expected);
        }
    }
}
