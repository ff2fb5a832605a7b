//! Seeded bugs: an oracle that finds none of them is worthless.

/// Bug to be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// Disks report syncs that they have not done.
    NothingSynced,
    /// Reads do not ask the leader for a read index.
    StaleReads,
    /// Slots do not keep their replies.
    SlotsForget,
    /// Byte-range locks are invisible to later lock requests.
    LocksForget,
    /// One member loses a part of its puts.
    MemberDiffers,
    /// An answer is given before the change is ordered.
    AnsweredTooSoon,
    /// The log of a restored group begins at index 0, so a joining member does not receive the restored
    /// store.
    RestoredStoreNotCovered,
}
