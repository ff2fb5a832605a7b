//! Backend of redb that retries while the system has no memory for a read or a write. redb accepts no change
//! after an error of its file, and the metaserver would stop although the disk is sound.
//!
//! A write without space is retried, too, for a minute ([`with_room`]): a disk can become full in the middle
//! of a commit, although a commit begins only if there is space.
//!
//! A failed sync is not retried: the kernel may have dropped pages. No descriptor is opened after the start,
//! so a shortage of descriptors does not matter.

use std::io;
use std::ops::Bound;

use host::{patiently, with_room};
use redb::{BackendError, StorageBackend};

/// Backend with retries, around a file or a simulation's substitute.
#[derive(Debug)]
pub(crate) struct Patient<B>(pub B);

impl<B: StorageBackend> StorageBackend for Patient<B> {
    fn len(&self) -> io::Result<u64> {
        patiently("look at the store", || self.0.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        patiently("read the store", || self.0.read(offset, out))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        with_room("grow the store", || self.0.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        // Retry the whole write: its first part is the same.
        with_room("write the store", || self.0.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.0.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.query_lock_range(start, end)
    }
}
