//! Reads of locked byte ranges, and the conflicts among them.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use store::{StoreError, View};

use super::{scan_records, state};
use crate::record::{HeldLock, get};
use crate::{ByteRange, ClientId, Conflict, Held, InodeId, LockKind, State, StateId, keys};

/// The ranges of a file that are locked, by where they start.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn locks(view: &dyn View, inode: InodeId) -> Result<Vec<Held>, StoreError> {
    let mut locks = Vec::new();
    locks_starting_before(view, inode, u64::MAX, |held| {
        locks.push(held);
        ControlFlow::Continue(())
    })?;
    Ok(locks)
}

/// LOCKT: the first range that keeps `owner` of `client` from locking `range`.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn conflicting_lock(
    view: &dyn View,
    inode: InodeId,
    client: ClientId,
    owner: &[u8],
    kind: LockKind,
    range: ByteRange,
) -> Result<Option<Conflict>, StoreError> {
    let found = first_conflict(view, inode, client, owner, kind, range)?;
    let Some(Held { range, kind, state: holder }) = found else { return Ok(None) };
    let Some(State::Lock(holder)) = state(view, holder)? else {
        return Err(StoreError {
            doing: "find a lock's owner",
            cause: format!("{holder:?} is not a lock state"),
        });
    };
    Ok(Some(Conflict { range, kind, client: holder.client, owner: holder.owner }))
}

/// The first range that keeps `owner` of `client` from locking `range`.
pub(crate) fn first_conflict(
    view: &dyn View,
    inode: InodeId,
    client: ClientId,
    owner: &[u8],
    kind: LockKind,
    range: ByteRange,
) -> Result<Option<Held>, StoreError> {
    let mut found = None;
    conflicting_locks(view, inode, client, owner, kind, range, |held| {
        found = Some(held);
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// The clients of all ranges that keep `owner` of `client` from locking `range`.
pub(crate) fn lock_holders(
    view: &dyn View,
    inode: InodeId,
    client: ClientId,
    owner: &[u8],
    kind: LockKind,
    range: ByteRange,
) -> Result<BTreeSet<ClientId>, StoreError> {
    let mut states = BTreeSet::new();
    conflicting_locks(view, inode, client, owner, kind, range, |held| {
        states.insert(held.state);
        ControlFlow::Continue(())
    })?;
    let mut holders = BTreeSet::new();
    for id in states {
        holders.extend(state(view, id)?.map(|state| state.client()));
    }
    Ok(holders)
}

fn conflicting_locks(
    view: &dyn View,
    inode: InodeId,
    client: ClientId,
    owner: &[u8],
    kind: LockKind,
    range: ByteRange,
    mut visit: impl FnMut(Held) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let own: Option<StateId> = get(view, &keys::lock_state(inode, client, owner))?;
    locks_starting_before(view, inode, range.end, |held| {
        let excludes = held.kind == LockKind::Write || kind == LockKind::Write;
        if Some(held.state) != own && held.range.end > range.start && excludes {
            return visit(held);
        }
        ControlFlow::Continue(())
    })
}

/// Visits the locked ranges of a file that start before `end`, by where they start.
pub(crate) fn locks_starting_before(
    view: &dyn View,
    inode: InodeId,
    end: u64,
    mut visit: impl FnMut(Held) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let (from, to) = (keys::of(keys::LOCKS, &[inode.0]), keys::of(keys::LOCKS, &[inode.0, end]));
    scan_records(view, &from, &to, |key, HeldLock { end, kind }| {
        let range = ByteRange { start: keys::number(key, 9), end };
        visit(Held { range, kind, state: StateId(keys::number(key, 17)) })
    })
}
