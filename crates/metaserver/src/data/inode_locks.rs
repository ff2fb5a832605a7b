//! Locks of inodes: one operation of a kind at a time for each file.

use std::collections::BTreeMap;
use std::sync::Arc;

use namespace::InodeId;
use parking_lot::Mutex;

/// A lock for each inode with operations that hold it or wait for it.
#[derive(Default)]
pub(crate) struct InodeLocks(Mutex<BTreeMap<InodeId, Arc<tokio::sync::Mutex<()>>>>);

impl InodeLocks {
    /// Returns the lock of `inode`. Take it before reading the records that the operation depends on.
    pub(crate) fn of(&self, inode: InodeId) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.0.lock();
        locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        Arc::clone(locks.entry(inode).or_default())
    }

    /// True if an operation holds the lock of this file, or waits for it.
    pub(crate) fn is_taken(&self, inode: InodeId) -> bool {
        self.0.lock().get(&inode).is_some_and(|lock| Arc::strong_count(lock) > 1)
    }
}
