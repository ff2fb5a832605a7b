//! What verification has found on a target: counts, and the blocks that are damaged now.

use std::collections::BTreeSet;
use std::ops::{Bound, Range};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::object::ObjectName;

/// Damaged blocks that are remembered. With more, the count is a lower bound, and each is logged again.
const DAMAGED_MAX: usize = 4096;

/// Findings of one target.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    damaged: Mutex<BTreeSet<(ObjectName, u64)>>,
    /// Length of `damaged`: a look at it costs no lock.
    damaged_now: AtomicUsize,
    damaged_total: AtomicU64,
    sums_total: AtomicU64,
    doubtful_total: AtomicU64,
    unsummed_total: AtomicU64,
    rewritten_total: AtomicU64,
    mended_total: AtomicU64,
    /// Told of each block that was found damaged.
    news: Notify,
}

/// Counts of the findings of a target since the start of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChecksumCounts {
    /// Blocks that are known to be damaged now: reads of them fail.
    pub damaged_now: u64,
    /// Blocks that were found damaged.
    pub damaged: u64,
    /// Sums that were found damaged, while their data may be whole. They were computed anew.
    pub sums_damaged: u64,
    /// Blocks that may have been in the middle of a write when the last process or its machine died, and did
    /// not fit their sum. They were summed as they were found.
    pub summed_anew: u64,
    /// Objects with data and without a sum file, of an earlier version or whose sum file was removed. They
    /// were summed as they were found.
    pub unsummed: u64,
    /// Blocks that were damaged on the disk, and written again from the kernel's cache.
    pub rewritten: u64,
    /// Damaged blocks that were replaced by those of other members of their chains.
    pub mended: u64,
}

impl Findings {
    /// Notes that a block is damaged. Returns whether that is news.
    pub(crate) fn damaged(&self, name: &ObjectName, block: u64) -> bool {
        let mut damaged = self.damaged.lock();
        if damaged.contains(&(*name, block)) {
            return false;
        }
        if damaged.len() < DAMAGED_MAX {
            damaged.insert((*name, block));
            self.damaged_now.store(damaged.len(), Ordering::Relaxed);
        }
        drop(damaged);
        self.damaged_total.fetch_add(1, Ordering::Relaxed);
        self.news.notify_one();
        true
    }

    /// Waits until a block is found damaged, or was since the last wait.
    pub(crate) async fn news(&self) {
        self.news.notified().await;
    }

    /// The next `max` damaged blocks after `after`.
    pub(crate) fn damaged_after(
        &self,
        after: Option<(ObjectName, u64)>,
        max: usize,
    ) -> Vec<(ObjectName, u64)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.damaged.lock().range((from, Bound::Unbounded)).take(max).copied().collect()
    }

    pub(crate) fn mended_from_member(&self) {
        self.mended_total.fetch_add(1, Ordering::Relaxed);
    }

    /// The blocks are not damaged any more: they were written, or the object is gone.
    pub(crate) fn mended(&self, name: &ObjectName, blocks: Range<u64>) {
        if self.damaged_now.load(Ordering::Relaxed) == 0 || blocks.is_empty() {
            return;
        }
        let mut damaged = self.damaged.lock();
        let range = (*name, blocks.start)..(*name, blocks.end);
        let mended: Vec<_> = damaged.range(range).copied().collect();
        mended.iter().for_each(|block| {
            damaged.remove(block);
        });
        self.damaged_now.store(damaged.len(), Ordering::Relaxed);
    }

    pub(crate) fn is_damaged(&self, name: &ObjectName, block: u64) -> bool {
        self.damaged_now.load(Ordering::Relaxed) > 0 && self.damaged.lock().contains(&(*name, block))
    }

    pub(crate) fn sum_damaged(&self) {
        self.sums_total.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn summed_anew(&self, blocks: u64) {
        self.doubtful_total.fetch_add(blocks, Ordering::Relaxed);
    }

    pub(crate) fn unsummed(&self) {
        self.unsummed_total.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn rewritten(&self) {
        self.rewritten_total.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> ChecksumCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ChecksumCounts {
            damaged_now: self.damaged_now.load(Ordering::Relaxed) as u64,
            damaged: read(&self.damaged_total),
            sums_damaged: read(&self.sums_total),
            summed_anew: read(&self.doubtful_total),
            unsummed: read(&self.unsummed_total),
            rewritten: read(&self.rewritten_total),
            mended: read(&self.mended_total),
        }
    }
}
