//! Bugs that are put in by hand: an oracle that finds none of them is worth nothing.

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// Disks say that they have synced, and have not.
    NothingSynced,
    /// Reads do not ask the leader what they must see.
    StaleReads,
    /// Slots do not remember what they answered.
    SlotsForget,
    /// Byte-range locks are not seen by those who come later.
    LocksForget,
    /// One member does not put all that it was told to.
    MemberDiffers,
    /// An answer is given before the change was ordered.
    AnsweredTooSoon,
    /// The log of a restored group begins at nothing, so that who joins is not sent what was restored.
    RestoredStoreNotCovered,
}
