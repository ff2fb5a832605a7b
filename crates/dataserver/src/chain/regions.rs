//! Dirty regions of an object, in pieces of 1 MiB.

use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of a region: what refilling compares at a time, and the largest read.
pub(super) const REGION_BYTES: u64 = 1 << 20;
/// Ranges of an object that are told apart. With more, those with the least between them become one.
const RANGES_MAX: usize = 64;

/// A set of regions. Without any, the object is dirty all the same: its length, its epochs, or that it is there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DirtyRegions {
    /// First region of each range, and the first one behind it. They do not touch.
    ranges: BTreeMap<u64, u64>,
}

impl DirtyRegions {
    pub(crate) fn all() -> Self {
        Self { ranges: BTreeMap::from([(0, u64::MAX)]) }
    }

    /// Adds the regions of these bytes. False: they are in it already.
    pub(crate) fn add(&mut self, bytes: Range<u64>) -> bool {
        if bytes.is_empty() {
            return false;
        }
        let (mut first, mut end) = (bytes.start / REGION_BYTES, bytes.end.div_ceil(REGION_BYTES));
        if self.ranges.range(..=first).next_back().is_some_and(|(_, to)| *to >= end) {
            return false;
        }
        while let Some((from, to)) = self.ranges.range(..=end).next_back().map(|(from, to)| (*from, *to))
            && to >= first
        {
            self.ranges.remove(&from);
            (first, end) = (first.min(from), end.max(to));
        }
        self.ranges.insert(first, end);
        if self.ranges.len() > RANGES_MAX {
            self.join_nearest();
        }
        true
    }

    fn join_nearest(&mut self) {
        let pairs = self.ranges.iter().zip(self.ranges.iter().skip(1));
        let gap = |((_, end), (next, _)): &((&u64, &u64), (&u64, &u64))| **next - **end;
        let nearest = pairs.min_by_key(gap).map(|((first, _), (next, end))| (*first, *next, *end));
        if let Some((first, next, end)) = nearest {
            self.ranges.remove(&next);
            self.ranges.insert(first, end);
        }
    }

    /// True if all of the object is dirty.
    pub(crate) fn are_all(&self) -> bool {
        self.ranges
            .first_key_value()
            .is_some_and(|(first, end)| *first == 0 && *end >= u64::MAX / REGION_BYTES)
    }

    /// Number of ranges.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// The ranges, in bytes.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        let bytes = |region: &u64| region.saturating_mul(REGION_BYTES);
        self.ranges.iter().map(move |(first, end)| bytes(first)..bytes(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = REGION_BYTES;

    fn of(ranges: &[(u64, u64)]) -> DirtyRegions {
        let mut regions = DirtyRegions::default();
        for (from, to) in ranges {
            regions.add(*from..*to);
            assert!(!regions.add(*from..*to), "they are in it already");
        }
        regions
    }

    /// In MiB.
    fn ranges(regions: &DirtyRegions) -> Vec<(u64, u64)> {
        regions.ranges().map(|range| (range.start / MIB, range.end.div_ceil(MIB))).collect()
    }

    #[test]
    fn ranges_that_touch_become_one() {
        assert_eq!(ranges(&of(&[(5, 5)])), []);
        assert_eq!(ranges(&of(&[(0, 1), (MIB - 1, MIB)])), [(0, 1)]);
        assert_eq!(ranges(&of(&[(0, 1), (3 * MIB, 3 * MIB + 1)])), [(0, 1), (3, 4)]);
        assert_eq!(ranges(&of(&[(0, 1), (3 * MIB, 4 * MIB), (MIB, 3 * MIB)])), [(0, 4)]);
        assert_eq!(ranges(&of(&[(2 * MIB, 3 * MIB), (0, 9 * MIB)])), [(0, 9)]);
        assert_eq!(ranges(&of(&[(0, 9 * MIB), (2 * MIB, 3 * MIB)])), [(0, 9)]);
        let to_the_end = (0, u64::MAX.div_ceil(MIB));
        assert_eq!(ranges(&of(&[(7, u64::MAX), (MIB, MIB + 1)])), [to_the_end]);
        assert_eq!(ranges(&DirtyRegions::all()), [to_the_end]);
    }

    #[test]
    fn many_ranges_lose_the_smallest_gaps() {
        let mut regions = DirtyRegions::default();
        for at in 0..RANGES_MAX as u64 {
            regions.add(10 * at * MIB..(10 * at + 1) * MIB);
        }
        assert_eq!(ranges(&regions).len(), RANGES_MAX);
        regions.add(13 * MIB..14 * MIB);
        let joined = ranges(&regions);
        assert_eq!((joined.len(), joined[1]), (RANGES_MAX, (10, 14)));
    }
}
