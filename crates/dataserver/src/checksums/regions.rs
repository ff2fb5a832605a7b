//! Regions of an object: which parts of it changed, in pieces of 64 MiB.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use super::block_sum::BLOCK;

/// Blocks of a region: 64 MiB, which a disk reads in less than a second after a crash.
pub(crate) const REGION_BLOCKS: u64 = 1024;
/// Regions of an object that are told apart. With more, all from the first one on count as changed.
const REGIONS_MAX: usize = 64;

/// A set of regions of one object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Regions {
    single: BTreeSet<u32>,
    /// All regions from this one on.
    tail: Option<u32>,
}

/// The region of an offset. An object of the longest file has 2^37 regions: those beyond 2^32 count as the
/// last one.
pub(crate) fn region_of(offset: u64) -> u32 {
    u32::try_from(offset / (REGION_BLOCKS * BLOCK)).unwrap_or(u32::MAX - 1)
}

impl Regions {
    /// All regions.
    pub(crate) fn all() -> Self {
        Self { single: BTreeSet::new(), tail: Some(0) }
    }

    /// Adds the regions `first..=last`; a `last` of `u32::MAX` means all from the first on.
    pub(crate) fn insert(&mut self, first: u32, last: u32) {
        if self.contains(first, last) {
            return;
        }
        let many = last != u32::MAX && (last - first) as usize >= REGIONS_MAX;
        if last == u32::MAX || many {
            self.tail = Some(self.tail.map_or(first, |tail| tail.min(first)));
        } else {
            self.single.extend(first..=last);
        }
        if self.single.len() > REGIONS_MAX {
            let first = self.single.first().copied().unwrap_or(0);
            self.tail = Some(self.tail.map_or(first, |tail| tail.min(first)));
        }
        if let Some(tail) = self.tail {
            self.single.retain(|region| *region < tail);
        }
    }

    /// True if all of `first..=last` are in it.
    pub(crate) fn contains(&self, first: u32, last: u32) -> bool {
        if self.tail.is_some_and(|tail| tail <= first) {
            return true;
        }
        if last == u32::MAX || (last - first) as usize > REGIONS_MAX {
            return false;
        }
        (first..=last).all(|region| self.single.contains(&region) || self.tail.is_some_and(|t| t <= region))
    }

    /// True if one of the region of these offsets is in it.
    pub(crate) fn touches(&self, offset: u64, end: u64) -> bool {
        let (first, last) = (region_of(offset), region_of(end.saturating_sub(1).max(offset)));
        self.tail.is_some_and(|tail| tail <= last) || self.single.range(first..=last).next().is_some()
    }

    /// Removes one region. Of a tail: its first.
    pub(crate) fn remove(&mut self, region: u32) {
        self.single.remove(&region);
        if self.tail == Some(region) {
            self.tail = Some(region.saturating_add(1));
        }
    }

    /// The first region, and whether it is the beginning of a tail.
    pub(crate) fn first(&self) -> Option<(u32, bool)> {
        match (self.single.first(), self.tail) {
            (Some(region), _) => Some((*region, false)),
            (None, tail) => tail.map(|region| (region, true)),
        }
    }

    /// The ranges that make it, as [`Regions::insert`] takes them.
    pub(crate) fn ranges(&self) -> Vec<RangeInclusive<u32>> {
        let single = self.single.iter().map(|region| *region..=*region);
        single.chain(self.tail.map(|tail| tail..=u32::MAX)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_regions_become_a_tail() {
        let mut regions = Regions::default();
        assert!(regions.first().is_none() && !regions.touches(0, u64::MAX));
        regions.insert(3, 4);
        assert!(regions.contains(3, 4) && !regions.contains(3, 5) && !regions.contains(2, 3));
        assert!(regions.touches(5 * REGION_BLOCKS * BLOCK - 1, 5 * REGION_BLOCKS * BLOCK));
        assert!(!regions.touches(5 * REGION_BLOCKS * BLOCK, 5 * REGION_BLOCKS * BLOCK + 1));
        regions.insert(100, u32::MAX);
        assert!(regions.contains(200, u32::MAX) && regions.contains(4, 4) && !regions.contains(99, 100));
        assert_eq!(regions.ranges(), [3..=3, 4..=4, 100..=u32::MAX]);
        regions.insert(10, 20);
        regions.insert(5, 90);
        assert_eq!(regions.ranges(), [3..=3, 4..=4, 5..=u32::MAX]);
        regions.remove(3);
        regions.remove(4);
        assert_eq!(regions.first(), Some((5, true)));
        regions.remove(5);
        assert_eq!(regions.first(), Some((6, true)));

        let mut scattered = Regions::default();
        for region in 0..=REGIONS_MAX as u32 {
            scattered.insert(2 * region + 1, 2 * region + 1);
        }
        assert_eq!(scattered.ranges(), [1..=u32::MAX]);
        assert_eq!(region_of(u64::MAX), u32::MAX - 1);
    }
}
