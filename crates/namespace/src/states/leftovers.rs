//! Leftovers: records of ended clients, sessions, opens and locks, and of removed volumes, to be removed by later
//! commands.
//!
//! A client can have a million states, and a session thousands of replies. Their removal in the command that
//! ends the client would block the thread of consensus on all members at once. So that command removes as
//! many as it may ([`RECORDS_OF_COMMAND_MAX`]), and marks the rest as left:
//!
//! ```text
//! ExpireClient, Open, Lock, …  ─▶ client, owner, sessions gone; 1,024 records removed; mark in table 32
//! RemoveLeftovers              ─▶ 1,024 records more, and so on
//! RemoveLeftovers              ─▶ the last ones, and the mark
//! ```
//!
//! A state whose client has no record is *gone*, although its own record still exists: it conflicts with
//! nothing (`conflicts.rs`), and no request can use it, because requests come in sessions. It still keeps its
//! file: a file without a name is discarded when its last state is removed.
//!
//! In the same way these are gone: a lock state whose open is closed, a range whose set belongs to no lock
//! state, and a layout that existed when its client returned all layouts. Volumes: see `volume/removal.rs`.
//!
//! The leader proposes `RemoveLeftovers` as long as there is a mark, so a new leader goes on after a
//! fail-over. `check` finds a state whose client neither exists nor is marked.

use std::ops::ControlFlow;

use serde::Serialize;
use store::StoreError;

use super::layout_state::{self, Ended};
use super::{lock, ranges, table};
use crate::clones::{self, promotion};
use crate::files::remove;
use crate::keys::Key;
use crate::plan::{Broken, Plan, Stop};
use crate::record::{LeftLayouts, LeftLocks, LeftRanges, LeftStates, decode};
use crate::snapshot::rollback;
use crate::volume::{quota, removal};
use crate::{
    ClientId, DelegationKind, DelegationState, InodeId, OpenState, RECORDS_OF_COMMAND_MAX, Reply, SessionId,
    State, StateId, VolumeId, keys, read, slot, snapshot,
};

/// Removes as many leftovers as one command may.
pub(crate) fn remove(plan: &mut Plan<'_>) -> Result<Reply, Stop> {
    while !plan.is_full()
        && let Some((key, value)) = first(plan)?
    {
        let is_done = match keys::number(&key, 1) {
            0 => remove_states(plan, ClientId(keys::number(&key, 9)), decode(&key, &value)?)?,
            1 => {
                let id = key.get(9..).and_then(|id| id.try_into().ok());
                remove_slots(plan, SessionId(id.ok_or(Broken("a leftover session has no id"))?))?
            }
            2 => remove_set(plan, keys::number(&key, 9), decode(&key, &value)?)?,
            3 => remove_locks(plan, StateId(keys::number(&key, 9)), decode(&key, &value)?)?,
            4 => remove_layouts(plan, ClientId(keys::number(&key, 9)), decode(&key, &value)?)?,
            5 => removal::remove_some(plan, VolumeId(keys::number(&key, 9) as u32))?,
            // A count sees inodes as they are after the command.
            6 if plan.has_touched_none() => quota::count_some(plan, VolumeId(keys::number(&key, 9) as u32))?,
            6 => false,
            7 => {
                let (volume, version) =
                    (VolumeId(keys::number(&key, 9) as u32), keys::number(&key, 17) as u32);
                snapshot::removal::remove_some(plan, volume, version, decode(&key, &value)?)?
            }
            8 => rollback::go_on(plan, VolumeId(keys::number(&key, 9) as u32), decode(&key, &value)?)?,
            9 => promotion::go_on(plan, VolumeId(keys::number(&key, 9) as u32), decode(&key, &value)?)?,
            10 => clones::forget_marks(plan, VolumeId(keys::number(&key, 9) as u32))?,
            _ => return Err(Broken("a leftover is of no known kind").into()),
        };
        if !is_done {
            break; // it may have scanned many records, and removed few
        }
        plan.delete(&key);
    }
    Ok(Reply::Done)
}

/// Indexes of the states of a file. Locks go before their open.
const STATES: [u8; 4] = [keys::LOCK_STATES, keys::LAYOUTS, keys::DELEGATIONS, keys::OPENS];

/// Ends the states in a range of each index of states, up to the bound of the command. Returns true if there are none
/// any more.
pub(crate) fn end_states(plan: &mut Plan<'_>, range: impl Fn(u8) -> (Key, Key)) -> Result<bool, Stop> {
    for tag in STATES {
        let (from, to) = range(tag);
        let some = read::collect_some::<StateId>(plan.view(), &from, &to, RECORDS_OF_COMMAND_MAX)?;
        let is_last = some.len() < RECORDS_OF_COMMAND_MAX;
        for (_, id) in some {
            if plan.is_full() {
                return Ok(false);
            }
            remove_state(plan, id)?;
        }
        if !is_last {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Ends the states of a file, up to the bound of the command. Returns true if it has none any more.
pub(crate) fn end_states_of(plan: &mut Plan<'_>, inode: InodeId) -> Result<bool, Stop> {
    end_states(plan, |tag| {
        let prefix = keys::of(tag, &[inode.0]);
        let end = keys::after(&prefix);
        (prefix, end)
    })
}

/// True if a client has a file of the volume, or of the snapshot, open.
pub(crate) fn has_open_files(plan: &Plan<'_>, id: VolumeId) -> Result<bool, StoreError> {
    let (from, to) = keys::of_volume(keys::OPENS, id);
    Ok(!read::some_keys(plan.view(), &from, &to, 1)?.is_empty())
}

/// Kinds of leftovers in the order in which they are removed: clients wait for rollbacks, and for counts the least.
const ORDER: [u64; 11] = [8, 0, 1, 2, 3, 4, 5, 7, 9, 10, 6];

/// Returns the first leftover.
fn first(plan: &Plan<'_>) -> Result<Option<(Key, Vec<u8>)>, StoreError> {
    let kinds = ORDER.into_iter().map(|kind| keys::of(keys::LEFTOVERS, &[kind]));
    for prefix in kinds.chain([vec![keys::LEFTOVERS]]) {
        let mut first = None;
        plan.view().scan(&prefix, &keys::after(&prefix), &mut |key, value| {
            first = Some((key.to_vec(), value.to_vec()));
            ControlFlow::Break(())
        })?;
        if first.is_some() {
            return Ok(first);
        }
    }
    Ok(None)
}

/// Removes the states of an ended client, up to the bound of the command, and marks the rest.
pub(super) fn of_client(plan: &mut Plan<'_>, client: ClientId) -> Result<(), Stop> {
    remove_states(plan, client, LeftStates::default()).map(drop)
}

/// Like [`of_client`], from `done` on. Returns true if all are removed, as the functions below do.
fn remove_states(plan: &mut Plan<'_>, client: ClientId, mut done: LeftStates) -> Result<bool, Stop> {
    let key = keys::left_states(client);
    let some = states_after(plan, client, done.after)?;
    let mut is_last = some.len() < RECORDS_OF_COMMAND_MAX;
    for id in some {
        if plan.is_full() {
            is_last = false;
            break;
        }
        remove_state(plan, id)?;
        done.after = id;
    }
    // The next scan begins there: the store keeps traces of deleted keys for a while.
    leave(plan, &key, &done, is_last)
}

/// Puts the mark of the remaining records; deletes it if none remain.
fn leave<T: Serialize>(plan: &mut Plan<'_>, key: &[u8], done: &T, is_last: bool) -> Result<bool, Stop> {
    if !is_last {
        plan.put(key, done)?;
        plan.leave_work();
    }
    Ok(is_last)
}

/// States of a client with ids above `after`: the first ones, up to the bound of one command.
fn states_after(plan: &Plan<'_>, client: ClientId, after: StateId) -> Result<Vec<StateId>, StoreError> {
    let mut states = Vec::new();
    let from = keys::client_state(client, StateId(after.0.saturating_add(1)));
    let to = keys::after(&keys::of(keys::CLIENT_STATES, &[client.0]));
    plan.view().scan(&from, &to, &mut |key, _| {
        states.push(StateId(keys::number(key, 9)));
        if states.len() < RECORDS_OF_COMMAND_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(states)
}

/// Removes one state, and discards its file if it is unused and has no name. Locks and layouts are removed
/// separately from their open: the client has ended, so the order does not matter.
pub(crate) fn remove_state(plan: &mut Plan<'_>, id: StateId) -> Result<(), Stop> {
    let state = read::state(plan.view(), id)?.ok_or(Broken("a client has a state that is not there"))?;
    match state {
        State::Lock(lock) => lock::end(plan, lock),
        State::Layout(layout) => layout_state::end(plan, layout, Ended::Revoked),
        State::Delegation(DelegationState { kind: DelegationKind::Revoked, .. }) => {
            table::remove(plan, &state)
        }
        State::Open(_) | State::Delegation(_) => {
            table::remove(plan, &state)?;
            remove::discard_if_orphan(plan, state.inode())
        }
    }
}

/// Removes the replies of an ended session, up to the bound of the command, and marks the rest.
pub(super) fn of_session(plan: &mut Plan<'_>, session: SessionId) -> Result<(), Stop> {
    remove_slots(plan, session).map(drop)
}

fn remove_slots(plan: &mut Plan<'_>, session: SessionId) -> Result<bool, Stop> {
    let is_last = slot::forget(plan, session)?;
    if !is_last {
        plan.mark(&keys::left_slots(session));
        plan.leave_work();
    }
    Ok(is_last)
}

/// Removes the ranges of a set without a lock state, up to the bound of the command, and marks the rest.
pub(super) fn of_set(plan: &mut Plan<'_>, set: u64) -> Result<(), Stop> {
    remove_set(plan, set, LeftRanges::default()).map(drop)
}

fn remove_set(plan: &mut Plan<'_>, set: u64, done: LeftRanges) -> Result<bool, Stop> {
    let next = ranges::remove(plan, set, done)?;
    leave(plan, &keys::left_ranges(set), &next.unwrap_or_default(), next.is_none())
}

/// Ends the lock states of a closed open, up to the bound of the command, and marks the rest.
pub(super) fn of_open(plan: &mut Plan<'_>, open: &OpenState) -> Result<(), Stop> {
    let (inode, client) = (open.inode, open.client);
    remove_locks(plan, open.stateid.id, LeftLocks { inode, client, from: vec![] }).map(drop)
}

/// Like [`of_open`]; lock states of the client's other opens of the file stay.
fn remove_locks(plan: &mut Plan<'_>, open: StateId, mut done: LeftLocks) -> Result<bool, Stop> {
    let key = keys::left_locks(open);
    let prefix = keys::lock_state(done.inode, done.client, &[]);
    let from = keys::lock_state(done.inode, done.client, &done.from);
    let to = keys::after(&prefix);
    let some = read::collect_some::<StateId>(plan.view(), &from, &to, RECORDS_OF_COMMAND_MAX)?;
    let mut is_last = some.len() < RECORDS_OF_COMMAND_MAX;
    for (at, id) in some {
        done.from = at.get(prefix.len()..).unwrap_or_default().to_vec();
        if plan.is_full() {
            is_last = false;
            break;
        }
        if let Some(State::Lock(lock)) = read::state(plan.view(), id)?
            && lock.open == open
        {
            lock::end(plan, lock)?;
        }
    }
    leave(plan, &key, &done, is_last)
}

/// Ends all layouts of a client, up to the bound of the command, and marks the rest.
pub(super) fn of_layouts(plan: &mut Plan<'_>, client: ClientId) -> Result<(), Stop> {
    let before = StateId(plan.counters()?.next_state);
    let is_last = remove_layouts(plan, client, LeftLayouts { before, after: StateId(0) })?;
    if is_last {
        plan.delete(&keys::left_layouts(client)); // of an earlier return
    }
    Ok(())
}

fn remove_layouts(plan: &mut Plan<'_>, client: ClientId, mut done: LeftLayouts) -> Result<bool, Stop> {
    let mut some = states_after(plan, client, done.after)?;
    let mut is_last = some.len() < RECORDS_OF_COMMAND_MAX;
    is_last |= some.last().is_some_and(|last| *last >= done.before);
    some.retain(|id| *id < done.before);
    for id in some {
        if plan.is_full() {
            is_last = false;
            break;
        }
        if let Some(State::Layout(layout)) = read::state(plan.view(), id)? {
            layout_state::end(plan, layout, Ended::Returned)?;
        }
        done.after = id;
    }
    leave(plan, &keys::left_layouts(client), &done, is_last)
}
