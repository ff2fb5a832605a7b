//! Seeded bugs: an oracle that finds none of them is worthless.

use namespace::{ApplyError, Changes, ClientId, Command, Conflict, Outcome, Proposal, Reply};
use store::View;

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
    /// Opens do not see each other's share reservations.
    SharesForget,
    /// Commands do not see the opens in the leader's memory.
    BriefOpensForget,
    /// Changes do not see delegations.
    DelegationsForget,
    /// OPEN does not see write delegations.
    WriteDelegationsForget,
    /// Truncations do not see layouts.
    LayoutsForget,
    /// LOCK from byte 1 on is denied by a lock without a holder.
    LocksDenied,
    /// Clocks of metaservers stand still: no lease runs out, and nothing is revoked.
    ClocksStand,
    /// Clocks of metaservers are fast: leases run out too soon.
    ClocksRace,
    /// Data servers answer REMOVE, and do not remove.
    ObjectsStay,
    /// Disks of data servers report syncs that they have not done.
    DataNotSynced,
}

/// State machine with [`Bug::LocksDenied`].
pub(crate) fn plan_denying_locks(view: &dyn View, proposal: &Proposal) -> Result<Outcome, ApplyError> {
    match &proposal.command {
        Command::Lock { kind, range, .. } if range.start == 1 => {
            let (kind, range) = (*kind, *range);
            let reply = Reply::Denied(Conflict { range, kind, client: ClientId(1), owner: vec![] });
            Ok(Outcome { reply, changes: Changes::default() })
        }
        _ => namespace::plan(view, proposal),
    }
}
