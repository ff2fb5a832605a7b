//! Room in a file system as its clients see it: that of the cluster, within the limits of the volume.

use namespace::{Inode, Limits, Usage, read};
use store::View;

use crate::attributes::Attributes;
use crate::errors::FileError;

/// Number of inodes for `df -i` without a limit. Tools divide by it.
const INODES_MAX: u64 = 1 << 40;

/// Space in bytes, and numbers of inodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    pub bytes_total: u64,
    pub bytes_free: u64,
    pub inodes_total: u64,
    pub inodes_free: u64,
}

/// Quota attributes of a file (RFC 8881, sections 5.8.2.28 to 5.8.2.30), in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quota {
    /// What may still be allocated to the file.
    pub available_hard: u64,
    /// What may still be allocated before a warning.
    pub available_soft: u64,
    /// What its volume has: each allocation in it leaves less for all others.
    pub used: u64,
}

impl Attributes {
    /// Room in the file system of an inode.
    pub(crate) fn room(&self, view: &dyn View, inode: &Inode) -> Result<Room, FileError> {
        let usage = read::charged(view, inode.id.volume())?;
        Ok(within(self.cluster.data_servers.space(), &usage))
    }

    /// Quota attributes of an inode.
    pub(crate) fn quota(&self, view: &dyn View, inode: &Inode) -> Result<Quota, FileError> {
        let usage = read::charged(view, inode.id.volume())?;
        let (_, free) = self.cluster.data_servers.space();
        let hard = read::room_bytes(view, inode, self.machine.now())?.min(free);
        let soft = match usage.limits.bytes_soft {
            0 => hard,
            soft => soft.saturating_sub(usage.bytes_shown()).min(hard),
        };
        Ok(Quota { available_hard: hard, available_soft: soft, used: usage.bytes_shown() })
    }
}

/// Room within limits, in a cluster with so many bytes in total and free.
fn within((total, free): (u64, u64), usage: &Usage) -> Room {
    let Limits { bytes_hard, inodes_hard, .. } = usage.limits;
    let (bytes_total, bytes_free) = match bytes_hard {
        0 => (total, free),
        hard => (hard, hard.saturating_sub(usage.bytes_shown()).min(free)),
    };
    let inodes_total = if inodes_hard == 0 { INODES_MAX } else { inodes_hard };
    Room { bytes_total, bytes_free, inodes_total, inodes_free: inodes_total.saturating_sub(usage.inodes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_the_size_of_a_file_system_and_no_more_is_free_than_the_cluster_has() {
        let usage = |bytes_hard, inodes_hard| Usage {
            bytes: 300,
            inodes: 7,
            limits: Limits { bytes_hard, inodes_hard, ..Limits::default() },
            ..Usage::default()
        };
        let room = |usage: &Usage| {
            let Room { bytes_total, bytes_free, inodes_total, inodes_free } = within((10_000, 500), usage);
            (bytes_total, bytes_free, inodes_total, inodes_free)
        };
        assert_eq!(room(&usage(0, 0)), (10_000, 500, INODES_MAX, INODES_MAX - 7));
        assert_eq!(room(&usage(1000, 10)), (1000, 500, 10, 3));
        assert_eq!(room(&usage(400, 7)), (400, 100, 7, 0));
        assert_eq!(room(&usage(100, 1)), (100, 0, 1, 0), "above the limits");
    }
}
