//! Reserve on each disk, so that a full disk refuses data while everything else goes on: removing
//! needs none, and a metaserver on the same disk must be able to write its log.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::StatVfs;

/// Reserve: twice a metaserver's reserve, since the two may share a disk.
pub(crate) const RESERVE_BYTES: u64 = 128 << 20;
/// The disk is asked again after this many bytes, since others write to it too.
const LOOK_AGAIN_BYTES: u64 = 32 << 20;

/// A target with less than this is full: the writes that its clients have under way may take so much.
pub(crate) const FULL_BYTES: u64 = 16 << 20;

/// Bytes that may still be written before the disk is asked again.
#[derive(Debug, Default)]
pub(crate) struct Capacity(AtomicU64);

impl Capacity {
    /// Takes `bytes` of those that are known to be there.
    pub(crate) fn take_known(&self, bytes: u64) -> bool {
        let enough = |left: u64| left.checked_sub(bytes);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, enough).is_ok()
    }

    /// Takes `bytes`, if they are there. `usable` asks the disk; one that cannot be asked counts as not full,
    /// for the write itself will find out.
    pub(crate) fn take(&self, bytes: u64, usable: impl FnOnce() -> Option<u64>) -> bool {
        if self.take_known(bytes) {
            return true;
        }
        let usable = usable().unwrap_or(u64::MAX);
        if usable < bytes {
            return false;
        }
        self.0.store(usable.min(LOOK_AGAIN_BYTES.max(bytes)) - bytes, Ordering::Relaxed);
        true
    }
}

/// Usable part of the free bytes.
pub(crate) fn usable(free: u64) -> u64 {
    free.saturating_sub(RESERVE_BYTES)
}

/// Capacity of a file system in bytes, without the blocks that only root may use: as the data server does not take
/// those, an empty disk with a part reserved is not one with a part used.
pub(crate) fn total(stat: &StatVfs) -> u64 {
    let reserved = stat.f_bfree.saturating_sub(stat.f_bavail);
    stat.f_blocks.saturating_sub(reserved).saturating_mul(stat.f_frsize)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn blocks_that_are_reserved_for_root_are_no_capacity() {
        let mut stat = rustix::fs::statvfs(Path::new("/")).unwrap();
        (stat.f_frsize, stat.f_blocks, stat.f_bfree, stat.f_bavail) = (4096, 100, 80, 75);
        assert_eq!(total(&stat), 95 * 4096);
        stat.f_bfree = 100;
        stat.f_bavail = 0;
        assert_eq!(total(&stat), 0);
    }

    #[test]
    fn the_reserve_is_left_alone_and_the_disk_is_not_asked_each_time() {
        let capacity = Capacity::default();
        let (mib, mut asked) = (1 << 20, 0);
        let mut write = |free_mib: u64| {
            capacity.take(mib, || {
                asked += 1;
                Some(usable(free_mib * mib))
            })
        };
        assert!(!write(128));
        assert!(write(129), "the last usable one");
        assert!(!write(128));
        assert!((0..64).all(|_| write(1000)));
        assert_eq!(asked, 3 + 2);
        assert!(Capacity::default().take(mib, || None));
    }
}
