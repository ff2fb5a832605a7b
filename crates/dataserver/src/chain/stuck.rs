//! Changes that wait until a damaged block is mended. They cover a part of the block, so they need the rest of
//! it; and they hold the locks of their ranges meanwhile, here and at the head. The head must not wait for
//! these locks when it mends the block.

use std::collections::BTreeMap;
use std::ops::Range;

use parking_lot::Mutex;

use super::locks::Key;

/// The changes. Their number is bounded by that of the calls under way.
#[derive(Default)]
pub(super) struct StuckChanges(Mutex<BTreeMap<Key, Vec<Range<u64>>>>);

/// A change that waits, until this is dropped.
pub(super) struct Stuck<'a> {
    changes: &'a StuckChanges,
    key: Key,
    range: Range<u64>,
}

impl StuckChanges {
    pub(super) fn add(&self, key: Key, range: Range<u64>) -> Stuck<'_> {
        self.0.lock().entry(key).or_default().push(range.clone());
        Stuck { changes: self, key, range }
    }

    /// Ranges of the changes that wait and touch `range`.
    pub(super) fn touching(&self, key: Key, range: &Range<u64>) -> Vec<Range<u64>> {
        let touches = |other: &&Range<u64>| other.start < range.end && range.start < other.end;
        let all = self.0.lock();
        all.get(&key).map_or_else(Vec::new, |ranges| ranges.iter().filter(touches).cloned().collect())
    }
}

impl Drop for Stuck<'_> {
    fn drop(&mut self) {
        let mut all = self.changes.0.lock();
        let Some(ranges) = all.get_mut(&self.key) else { return };
        if let Some(at) = ranges.iter().position(|range| *range == self.range) {
            ranges.swap_remove(at);
        }
        if ranges.is_empty() {
            all.remove(&self.key);
        }
    }
}

/// The parts of `range` that are in none of `except`.
pub(super) fn outside(range: Range<u64>, except: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut except: Vec<_> = except.iter().filter(|other| other.start < other.end).cloned().collect();
    except.sort_by_key(|other| other.start);
    let (mut parts, mut at) = (Vec::new(), range.start);
    for other in except {
        let start = other.start.min(range.end);
        if at < start {
            parts.push(at..start);
        }
        at = at.max(other.end);
    }
    if at < range.end {
        parts.push(at..range.end);
    }
    parts
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "the ranges are the values")]
mod tests {
    use super::*;
    use crate::object::ObjectName;

    #[test]
    fn the_parts_outside_leave_out_what_overlaps() {
        type Case = (&'static [Range<u64>], &'static [Range<u64>]);
        let table: [Case; 6] = [
            (&[], &[10..20]),
            (&[0..30], &[]),
            (&[12..14], &[10..12, 14..20]),
            (&[15..30, 0..12, 11..13], &[13..15]),
            (&[0..10, 20..30, 5..5], &[10..20]),
            (&[0..u64::MAX, 15..16], &[]),
        ];
        for (except, parts) in table {
            assert_eq!(outside(10..20, except), parts, "{except:?}");
        }
    }

    #[test]
    fn a_change_waits_until_it_is_dropped() {
        let key = (1, ObjectName { inode: 1, column: 0, volume: 1, generation: 1 });
        let changes = StuckChanges::default();
        let one = changes.add(key, 0..10);
        let same = changes.add(key, 0..10);
        assert_eq!(changes.touching(key, &(5..6)), [0..10, 0..10]);
        drop(one);
        assert_eq!(changes.touching(key, &(5..6)), [0..10]);
        assert_eq!(changes.touching(key, &(10..20)), [] as [Range<u64>; 0]);
        drop(same);
        assert!(changes.0.lock().is_empty());
    }
}
