//! Steps: chosen by seed, and their effect on the copy in memory.

use tests::Dice;

/// Maximal length of inline data: many steps are near it.
const INLINE_BYTES: u64 = 64 * 1024;
const PAGE_BYTES: u64 = 4096;
/// Maximal length of one write: two stripe units and some.
const WRITE_BYTES_MAX: u64 = 150_000;
/// Size limit of most steps, so that the whole file can be compared after each of them.
const USUAL_BYTES_MAX: u64 = 400_000;

/// Limits by a file system, a protocol version and a mode of opening.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Maximal size of the file.
    pub bytes_max: u64,
    /// Start of the part of the file for the steps.
    pub base: u64,
    /// Fixed size of the part, if other parts follow.
    pub fixed_bytes: Option<u64>,
    /// With O_DIRECT: no maps, since the order of two ways to write is undefined, and no O_APPEND, which the
    /// Linux NFS client refuses together with it.
    pub direct: bool,
    /// `fallocate`, also to punch holes (NFSv4.2).
    pub allocate: bool,
}

#[derive(Debug, Clone, Copy)]
pub enum Step {
    Write {
        offset: u64,
        length: u64,
    },
    /// With O_APPEND.
    Append {
        length: u64,
    },
    /// Through a shared mapping.
    MapWrite {
        offset: u64,
        length: u64,
    },
    /// Through a mapping; compared at once.
    MapRead {
        offset: u64,
        length: u64,
    },
    /// May extend beyond the end; compared at once.
    Read {
        offset: u64,
        length: u64,
    },
    Truncate {
        size: u64,
    },
    /// Open with O_TRUNC.
    OpenTruncate,
    /// Without FALLOC_FL_KEEP_SIZE, which the Linux NFS client refuses.
    Allocate {
        offset: u64,
        length: u64,
    },
    Punch {
        offset: u64,
        length: u64,
    },
    Fsync,
    Reopen,
    /// Fsync, and drop of the pages: the next step finds nothing in the client's memory.
    Forget,
}

impl Step {
    /// Step that `dice` choose for a file of `size` bytes. The same dice and size give the same step.
    pub fn choose(dice: &mut Dice, size: u64, rules: &Rules) -> Step {
        loop {
            let step = match dice.below(100) {
                0..30 => {
                    let offset = offset(dice, size, rules);
                    Step::Write { offset, length: length(dice) }
                }
                30..34 if !rules.direct => Step::Append { length: length(dice) },
                34..44 if !rules.direct => {
                    within(dice, size, rules, |offset, length| Step::MapWrite { offset, length })
                }
                44..48 if !rules.direct => {
                    within(dice, size, rules, |offset, length| Step::MapRead { offset, length })
                }
                48..58 => Step::Read { offset: offset(dice, size + 1, rules), length: length(dice) },
                58..68 => Step::Truncate { size: truncated(dice, size, rules) },
                68..70 => Step::OpenTruncate,
                70..76 if rules.allocate => {
                    Step::Allocate { offset: offset(dice, size, rules), length: length(dice) }
                }
                76..83 if rules.allocate => {
                    Step::Punch { offset: offset(dice, size, rules), length: length(dice) }
                }
                83..88 => Step::Fsync,
                88..94 => Step::Reopen,
                94..100 => Step::Forget,
                _ => continue,
            };
            if step.is_allowed(size, rules) {
                return step;
            }
        }
    }

    fn is_allowed(&self, size: u64, rules: &Rules) -> bool {
        let end = match *self {
            Step::Write { offset, length } => offset + length,
            Step::Append { length } => size + length,
            Step::Allocate { offset, length } => offset + length,
            Step::Truncate { size } => size,
            Step::MapWrite { length, .. } | Step::MapRead { length, .. } if length == 0 => return false,
            _ => 0,
        };
        match (rules.fixed_bytes, self) {
            (Some(_), Step::Append { .. } | Step::Truncate { .. } | Step::OpenTruncate) => false,
            (
                Some(fixed),
                Step::Punch { offset, length }
                | Step::Allocate { offset, length, .. }
                | Step::Read { offset, length },
            ) => offset + length <= rules.base + fixed,
            (Some(fixed), _) => end <= rules.base + fixed,
            // A file with a base must keep the bytes before it.
            (None, Step::OpenTruncate) => rules.base == 0,
            (None, _) => end <= rules.bytes_max,
        }
    }

    /// Applies the step to the copy. `number` and `seed` determine the written bytes.
    pub fn apply(&self, copy: &mut Vec<u8>, seed: u64, number: u64) {
        match *self {
            Step::Write { offset, length } | Step::MapWrite { offset, length } => {
                put(copy, offset, &bytes(seed, number, length));
            }
            Step::Append { length } => put(copy, copy.len() as u64, &bytes(seed, number, length)),
            Step::Truncate { size } => copy.resize(size as usize, 0),
            Step::OpenTruncate => copy.clear(),
            Step::Allocate { offset, length } => {
                copy.resize(copy.len().max((offset + length) as usize), 0);
            }
            Step::Punch { offset, length } => {
                let size = copy.len();
                copy[size.min(offset as usize)..size.min((offset + length) as usize)].fill(0);
            }
            Step::MapRead { .. } | Step::Read { .. } | Step::Fsync | Step::Reopen | Step::Forget => {}
        }
    }
}

/// Bytes of step `number`: no two steps write the same, and no part of them is like another.
pub fn bytes(seed: u64, number: u64, length: u64) -> Vec<u8> {
    let mut dice = Dice::new(seed ^ number.wrapping_mul(0xa076_1d64_78bd_642f));
    let mut bytes = Vec::with_capacity(length as usize + 8);
    while (bytes.len() as u64) < length {
        bytes.extend_from_slice(&dice.bits().to_le_bytes());
    }
    bytes.truncate(length as usize);
    bytes
}

fn put(copy: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let (start, end) = (offset as usize, offset as usize + bytes.len());
    if copy.len() < end {
        copy.resize(end, 0);
    }
    copy[start..end].copy_from_slice(bytes);
}

/// Position near an edge.
fn near(dice: &mut Dice, edge: u64) -> u64 {
    (edge + dice.below(5)).saturating_sub(2)
}

fn offset(dice: &mut Dice, size: u64, rules: &Rules) -> u64 {
    let end = rules.fixed_bytes.map_or(size, |fixed| rules.base + fixed).max(rules.base + 1);
    let offset = match dice.below(10) {
        0..5 => dice.between(rules.base, end),
        5 => dice.between(rules.base, end) / PAGE_BYTES * PAGE_BYTES,
        6 => near(dice, INLINE_BYTES),
        7 => {
            let units = end / INLINE_BYTES + 1;
            let unit = dice.below(units) * INLINE_BYTES;
            near(dice, unit)
        }
        8 => near(dice, size),
        _ => size + dice.below(100_000), // leaves a hole
    };
    offset.max(rules.base)
}

fn length(dice: &mut Dice) -> u64 {
    match dice.below(8) {
        0 => dice.between(1, 10),
        1..4 => dice.between(1, 3 * PAGE_BYTES),
        4 => dice.between(1, 20) * PAGE_BYTES,
        5 => near(dice, INLINE_BYTES),
        6 => dice.between(1, INLINE_BYTES),
        _ => dice.between(1, WRITE_BYTES_MAX),
    }
}

/// Range within the present file.
fn within(dice: &mut Dice, size: u64, rules: &Rules, step: impl Fn(u64, u64) -> Step) -> Step {
    let end = rules.fixed_bytes.map_or(size, |fixed| rules.base + fixed);
    if end <= rules.base {
        return step(rules.base, 0);
    }
    let offset = dice.between(rules.base, end);
    step(offset, length(dice).min(end - offset))
}

fn truncated(dice: &mut Dice, size: u64, rules: &Rules) -> u64 {
    let size = match dice.below(10) {
        0 => 0,
        1 => dice.below(100),
        2..4 => near(dice, INLINE_BYTES),
        4..7 => dice.below(size + 1),
        7 => near(dice, dice.clone().below(8) * INLINE_BYTES),
        8 => dice.below(USUAL_BYTES_MAX),
        // Rarely large: the next steps soon make it small again.
        _ if dice.below(4) == 0 => dice.below(rules.bytes_max),
        _ => dice.below(USUAL_BYTES_MAX),
    };
    size.max(rules.base)
}
