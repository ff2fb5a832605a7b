//! LOCK, LOCKU, FREE_STATEID: byte-range locks as POSIX has them (RFC 8881, sections 9.1 to 9.5, 18.10,
//! 18.12).
//!
//! One lock state for each lock-owner and file; its ranges are disjoint, and two of one kind never touch. A
//! new range replaces the parts that it covers of the owner's own ranges:
//!
//! ```text
//! held      ├─ read ──────────────────────┤
//! locked              ├─ write ─┤
//! then      ├─ read ──┼─ write ─┼─ read ──┤
//! ```

use std::ops::ControlFlow;

use store::StoreError;

use super::{client, open, table};
use crate::plan::{Broken, Plan, Stop};
use crate::record::{HeldLock, get};
use crate::{
    ByteRange, ClientId, Conflict, Error, Held, InodeId, LockKind, LockOwner, LockState, OpenState, Reply,
    Share, State, StateId, Stateid, keys, read,
};

pub(crate) fn lock(
    plan: &mut Plan<'_>,
    client: ClientId,
    inode: InodeId,
    owner: &LockOwner,
    kind: LockKind,
    range: ByteRange,
) -> Result<Reply, Stop> {
    let (open, owner, known) = match owner {
        LockOwner::New { open, owner } => {
            let open = open::find(plan, client, *open)?;
            let known: Option<StateId> = get(plan.view(), &keys::lock_state(inode, client, owner))?;
            let known = known.map(|id| find_any(plan, client, id)).transpose()?;
            (open, owner.clone(), known)
        }
        LockOwner::Known { lock } => {
            let known = find(plan, client, *lock)?;
            let State::Open(open) = table::find(plan, client, known.open)? else {
                return Err(Error::BadStateid.into());
            };
            (open, known.owner.clone(), Some(known))
        }
    };
    if open.inode != inode {
        return Err(Error::BadStateid.into());
    }
    check_range(range)?;
    let needed = match kind {
        LockKind::Read => Share::READ,
        LockKind::Write => Share::WRITE,
    };
    if !open.access.contains(needed) {
        return Err(Error::OpenMode.into());
    }
    table::check_room(plan, client)?;
    if let Some(held) = read::first_conflict(plan.view(), inode, client, &owner, kind, range)? {
        let holders = read::lock_holders(plan.view(), inode, client, &owner, kind, range)?;
        let Some(lapsed) = client::all_lapsed(plan, holders, client)? else {
            return Ok(Reply::Denied(denial(plan, held)?));
        };
        lapsed.iter().try_for_each(|client| client::end(plan, client))?;
    }

    let (before, mut state) = match known {
        Some(known) => {
            let mut state = known.clone();
            table::advance(&mut state.stateid);
            (Some(known), state)
        }
        None => {
            let stateid = table::new_stateid(plan)?;
            (None, LockState { stateid, client, inode, owner, open: open.stateid.id, ranges: 0 })
        }
    };
    let widened = cover(plan, &mut state, range, Some(kind))?;
    put_range(plan, &mut state, widened, kind)?;
    let stateid = Some(state.stateid);
    match before {
        None => table::insert(plan, &State::Lock(state))?,
        Some(before) => table::replace(plan, &State::Lock(before), &State::Lock(state))?,
    }
    Ok(Reply::State { stateid })
}

/// The reply to a LOCK that `held` keeps from being granted.
fn denial(plan: &Plan<'_>, held: Held) -> Result<Conflict, Stop> {
    match read::state(plan.view(), held.state)? {
        Some(State::Lock(LockState { client, owner, .. })) => {
            Ok(Conflict { range: held.range, kind: held.kind, client, owner })
        }
        _ => Err(Broken("a locked range is of no lock state").into()),
    }
}

pub(crate) fn unlock(
    plan: &mut Plan<'_>,
    client: ClientId,
    stateid: Stateid,
    range: ByteRange,
) -> Result<Reply, Stop> {
    let before = find(plan, client, stateid)?;
    check_range(range)?;
    let mut state = before.clone();
    table::advance(&mut state.stateid);
    cover(plan, &mut state, range, None)?;
    let stateid = Some(state.stateid);
    table::replace(plan, &State::Lock(before), &State::Lock(state))?;
    Ok(Reply::State { stateid })
}

/// FREE_STATEID (RFC 8881, section 18.38).
pub(crate) fn free_state(plan: &mut Plan<'_>, client: ClientId, stateid: Stateid) -> Result<Reply, Stop> {
    let state = table::find(plan, client, stateid.id)?;
    match &state {
        State::Layout(_) => return Err(Error::BadStateid.into()),
        State::Delegation(delegation) => {
            table::check_sequence(stateid, delegation.stateid)?;
            if !delegation.revoked {
                return Err(Error::LocksHeld.into());
            }
        }
        State::Open(open) => {
            table::check_sequence(stateid, open.stateid)?;
            return Err(Error::LocksHeld.into());
        }
        State::Lock(lock) => {
            table::check_sequence(stateid, lock.stateid)?;
            if lock.ranges > 0 {
                return Err(Error::LocksHeld.into());
            }
        }
    }
    table::remove(plan, &state)?;
    Ok(Reply::Done)
}

/// Ends the lock states that came through `open`, with every range that they hold.
pub(super) fn end_under(plan: &mut Plan<'_>, open: &OpenState) -> Result<(), Stop> {
    let ids: Vec<StateId> = read::collect(plan.view(), &keys::lock_state(open.inode, open.client, &[]))?;
    for id in ids {
        let Some(State::Lock(lock)) = read::state(plan.view(), id)? else { continue };
        if lock.open == open.stateid.id {
            if lock.ranges > 0 {
                cover(plan, &mut lock.clone(), ByteRange { start: 0, end: u64::MAX }, None)?;
            }
            table::remove(plan, &State::Lock(lock))?;
        }
    }
    Ok(())
}

fn find(plan: &Plan<'_>, client: ClientId, stateid: Stateid) -> Result<LockState, Stop> {
    let lock = find_any(plan, client, stateid.id)?;
    table::check_sequence(stateid, lock.stateid)?;
    Ok(lock)
}

fn find_any(plan: &Plan<'_>, client: ClientId, id: StateId) -> Result<LockState, Stop> {
    match table::find(plan, client, id)? {
        State::Lock(lock) => Ok(lock),
        State::Open(_) | State::Layout(_) | State::Delegation(_) => Err(Error::BadStateid.into()),
    }
}

fn check_range(range: ByteRange) -> Result<(), Error> {
    if range.start < range.end { Ok(()) } else { Err(Error::BadRange) }
}

/// Takes `range` out of what the state holds. A range that it touches of the `joining` kind goes whole; what
/// is returned is `range` widened over those.
fn cover(
    plan: &mut Plan<'_>,
    state: &mut LockState,
    range: ByteRange,
    joining: Option<LockKind>,
) -> Result<ByteRange, Stop> {
    let mut touched = Vec::new();
    read::locks_starting_before(plan.view(), state.inode, range.end.saturating_add(1), |held| {
        if held.state == state.stateid.id && held.range.end >= range.start {
            touched.push(held);
        }
        ControlFlow::Continue(())
    })?;
    let mut widened = range;
    for Held { range: held, kind, .. } in touched {
        if Some(kind) == joining {
            widened.start = widened.start.min(held.start);
            widened.end = widened.end.max(held.end);
            take_range(plan, state, held)?;
        } else if held.start < range.end && held.end > range.start {
            take_range(plan, state, held)?;
            if held.start < range.start {
                put_range(plan, state, ByteRange { start: held.start, end: range.start }, kind)?;
            }
            if held.end > range.end {
                put_range(plan, state, ByteRange { start: range.end, end: held.end }, kind)?;
            }
        }
    }
    Ok(widened)
}

fn put_range(
    plan: &mut Plan<'_>,
    state: &mut LockState,
    range: ByteRange,
    kind: LockKind,
) -> Result<(), StoreError> {
    state.ranges += 1;
    plan.put(&keys::lock(state.inode, range.start, state.stateid.id), &HeldLock { end: range.end, kind })
}

fn take_range(plan: &mut Plan<'_>, state: &mut LockState, range: ByteRange) -> Result<(), Broken> {
    state.ranges =
        state.ranges.checked_sub(1).ok_or(Broken("a lock state holds more ranges than it counts"))?;
    plan.delete(&keys::lock(state.inode, range.start, state.stateid.id));
    Ok(())
}
