//! LOCK, LOCKU, FREE_STATEID: POSIX byte-range locks (RFC 8881, sections 9.1 to 9.5, 18.10, 18.12).
//!
//! One lock state for each lock-owner and file: see `ranges.rs` for its content, and `read/locks.rs` for the
//! search for conflicts.

use super::conflicts::{self, InTheWay};
use super::{leftovers, open, ranges, table};
use crate::files::epoch;
use crate::plan::{Broken, Plan, Stop};
use crate::read::LockTest;
use crate::record::get;
use crate::{
    ByteRange, ClientId, Error, InodeId, LockKind, LockOwner, LockState, Reply, Share, State, StateId,
    Stateid, keys, read,
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
            let known = known.map(|id| find_known(plan, id)).transpose()?.flatten();
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
    // A client that has ended may still write: the owner of the lock would not be alone.
    if epoch::is_unfenced(plan, inode)? {
        return Err(Error::Delay.into());
    }
    let test = LockTest { inode, client, owner: &owner, kind, range };
    if known.as_ref().map(|known| ranges::touches_many(plan, known, range)).transpose()?.unwrap_or(false) {
        // A search between the owner's ranges would be as much work as changing them one by one.
        if others_hold_ranges(plan, inode, known.as_ref())? {
            return Err(Error::LockRange.into());
        }
    } else {
        let mut lapsed = InTheWay::default();
        let mut search = read::Search::new(plan.view(), test, conflicts::LOOKED_AT_MAX)?;
        search.run(&mut |holder| Ok(!lapsed.note(plan, holder, client)?))?;
        if search.decided {
            let denied = search.first().ok_or(Broken("a lock is denied, and nothing is in its way"))?;
            return Ok(Reply::Denied(denied));
        }
        if search.unseen {
            lapsed.note_unseen();
        }
        if lapsed.is_crowd() {
            return lapsed.end_some(plan, Error::Delay);
        }
        lapsed.end(plan)?;
        if epoch::is_unfenced(plan, inode)? {
            return Ok(Reply::Refused(Error::Delay)); // the clients in the way have ended, all the same
        }
    }

    let (before, mut state) = match known {
        Some(known) => {
            let mut state = known.clone();
            table::advance(&mut state.stateid);
            (Some(known), state)
        }
        None => {
            let stateid = table::new_stateid(plan)?;
            let (open, set) = (open.stateid.id, stateid.id.0);
            (None, LockState { stateid, client, inode, owner, open, ranges: 0, set })
        }
    };
    let widened = ranges::cover(plan, &mut state, range, Some(kind))?;
    ranges::put(plan, &mut state, widened, kind)?;
    let stateid = Some(state.stateid);
    match before {
        None => table::insert(plan, &State::Lock(state))?,
        Some(before) => table::replace(plan, &State::Lock(before), &State::Lock(state))?,
    }
    Ok(Reply::State { stateid })
}

/// True if a lock state other than `own` has ranges of the file, or there are too many to be sure.
fn others_hold_ranges(plan: &Plan<'_>, inode: InodeId, own: Option<&LockState>) -> Result<bool, Stop> {
    let (keys, more) = conflicts::first_keys(plan, &keys::of(keys::LOCK_STATES, &[inode.0]))?;
    for key in keys {
        let state = get(plan.view(), &key)?.map(|id| read::state(plan.view(), id)).transpose()?.flatten();
        let is_own = state.as_ref().map(|state: &State| state.stateid().id) == own.map(|own| own.stateid.id);
        if let Some(State::Lock(lock)) = state
            && !is_own
            && lock.ranges > 0
            && read::holds(plan.view(), &lock)?
        {
            return Ok(true);
        }
    }
    Ok(more)
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
    ranges::cover(plan, &mut state, range, None)?;
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
            if !delegation.is_revoked() {
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

/// Ends a lock state; ranges beyond the bound of the command are marked as left.
pub(super) fn end(plan: &mut Plan<'_>, lock: LockState) -> Result<(), Stop> {
    if lock.ranges > 0 {
        leftovers::of_set(plan, lock.set)?;
    }
    table::remove(plan, &State::Lock(lock))
}

fn find(plan: &Plan<'_>, client: ClientId, stateid: Stateid) -> Result<LockState, Stop> {
    let lock = find_any(plan, client, stateid.id)?;
    table::check_sequence(stateid, lock.stateid)?;
    Ok(lock)
}

/// Returns the lock state with this id. A leftover of a closed open is ended, so that a new state can take
/// its place.
fn find_known(plan: &mut Plan<'_>, id: StateId) -> Result<Option<LockState>, Stop> {
    match read::state(plan.view(), id)? {
        Some(State::Lock(lock)) if read::holds(plan.view(), &lock)? => Ok(Some(lock)),
        Some(State::Lock(lock)) => end(plan, lock).map(|()| None),
        _ => Err(Broken("the index of lock states names another state").into()),
    }
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
