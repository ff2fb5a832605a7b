//! Space of a target: that of the file system below, without what is reserved.

use std::sync::atomic::Ordering;

use rustix::fs::StatVfsMountFlags;

use super::{ObjectError, Objects};
use crate::capacity::{self, usable};

/// Space on the file system that holds the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes in all.
    pub total: u64,
    /// Usable bytes: the free ones without the reserve, and those in the trash of all targets of this process on the
    /// file system.
    pub free: u64,
    /// Bytes in the trash, which a write that needs them gets.
    pub trash: u64,
    /// True if the file system is read-only.
    pub read_only: bool,
}

impl Objects {
    /// Space on the file system below.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub fn space(&self) -> Result<Space, ObjectError> {
        let stat = self.disk.statvfs(self.root.file()).map_err(|error| {
            tracing::debug!(target = %self.root.path().display(), %error, "statvfs failed");
            ObjectError::Io
        })?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        let (total, trash) = (capacity::total(&stat), self.trash.own().bytes());
        // A read-only mount ends with the next mount; a failed sync wants a restart.
        let is_mounted_so = stat.f_flag.contains(StatVfsMountFlags::RDONLY);
        if is_mounted_so {
            self.refuses_changes.store(false, Ordering::Relaxed);
        }
        let read_only = is_mounted_so || self.refuses_changes.load(Ordering::Relaxed);
        let free = bytes(stat.f_bavail).saturating_add(self.trash.reclaimable_bytes());
        let free = usable(free).min(total);
        Ok(Space { total, free, trash, read_only })
    }

    /// Bytes that may be used as long as nothing is taken from the trash.
    pub(crate) fn usable_bytes(&self) -> Result<u64, ObjectError> {
        let stat = self.disk.statvfs(self.root.file()).map_err(|_| ObjectError::Io)?;
        Ok(usable(stat.f_bavail.saturating_mul(stat.f_frsize)))
    }
}
