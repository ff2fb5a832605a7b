//! Leftovers: records of clients, sessions, opens and locks that have ended, which later commands remove.
//!
//! A client can have a million states, and a session thousands of replies. To remove them in the command that
//! ends the client would keep the thread of consensus from everything else, on all members at once. So that
//! command removes as many as it may ([`RECORDS_OF_COMMAND_MAX`]), and marks the rest as left:
//!
//! ```text
//! ExpireClient, Open, Lock, …  ─▶ client, owner, sessions gone; 1,024 records removed; mark in table 32
//! RemoveLeftovers              ─▶ 1,024 records more, and so on
//! RemoveLeftovers              ─▶ the last ones, and the mark
//! ```
//!
//! A state whose client has no record is *gone*, although its own record is still there: it conflicts with
//! nothing (`conflicts.rs`), and no request can name it, because requests come in sessions. It still holds
//! its file in existence: a file without a name goes when the last state of it is removed.
//!
//! In the same way a lock state is gone whose open is closed, a range whose set is not that of a lock state,
//! and a layout that was there when its client returned all layouts.
//!
//! The metaserver that leads proposes `RemoveLeftovers` as long as there is a mark, so the next leader goes
//! on after a fail-over. `check` finds a state of a client that is neither there nor marked.

use std::ops::ControlFlow;

use serde::Serialize;
use store::StoreError;

use super::{layout_state, lock, ranges, table};
use crate::files::remove;
use crate::keys::Key;
use crate::plan::{Broken, Plan, Stop};
use crate::record::{LeftLayouts, LeftLocks, LeftRanges, LeftStates, decode};
use crate::{
    ClientId, DelegationState, OpenState, RECORDS_OF_COMMAND_MAX, Reply, SessionId, State, StateId, keys,
    read, slot,
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
            _ => return Err(Broken("a leftover is of no known kind").into()),
        };
        if !is_done {
            break; // it may have looked at much, and removed little
        }
        plan.delete(&key);
    }
    Ok(Reply::Done)
}

/// The first leftover.
fn first(plan: &Plan<'_>) -> Result<Option<(Key, Vec<u8>)>, StoreError> {
    let mut first = None;
    plan.view().scan(&[keys::LEFTOVERS], &keys::after(&[keys::LEFTOVERS]), &mut |key, value| {
        first = Some((key.to_vec(), value.to_vec()));
        ControlFlow::Break(())
    })?;
    Ok(first)
}

/// Removes the states of a client that has ended, as many as the command has room for, and leaves the rest.
pub(super) fn of_client(plan: &mut Plan<'_>, client: ClientId) -> Result<(), Stop> {
    remove_states(plan, client, LeftStates::default()).map(drop)
}

/// The same from `done` on. Whether these were all; so with the others below.
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
    // The next one begins there: the store keeps traces of deleted keys for a while.
    leave(plan, &key, &done, is_last)
}

/// Puts the mark of what is left, unless that is nothing.
fn leave<T: Serialize>(plan: &mut Plan<'_>, key: &[u8], done: &T, is_last: bool) -> Result<bool, Stop> {
    if !is_last {
        plan.put(key, done)?;
    }
    Ok(is_last)
}

/// States of a client with ids above `after`: the first ones, as many as one command can remove.
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

/// Removes one state, and the file if nothing else holds it. Locks and layouts go by themselves, not with
/// their open: their client has ended, so no other state depends on the order.
fn remove_state(plan: &mut Plan<'_>, id: StateId) -> Result<(), Stop> {
    let state = read::state(plan.view(), id)?.ok_or(Broken("a client has a state that is not there"))?;
    if let State::Lock(lock) = state {
        return lock::end(plan, lock);
    }
    table::remove(plan, &state)?;
    match state {
        State::Lock(_) | State::Delegation(DelegationState { revoked: true, .. }) => Ok(()),
        State::Open(_) | State::Layout(_) | State::Delegation(_) => {
            remove::discard_if_orphan(plan, state.inode())
        }
    }
}

/// Forgets the replies of a session that has ended, as many as the command has room for, and leaves the rest.
pub(super) fn of_session(plan: &mut Plan<'_>, session: SessionId) -> Result<(), Stop> {
    remove_slots(plan, session).map(drop)
}

fn remove_slots(plan: &mut Plan<'_>, session: SessionId) -> Result<bool, Stop> {
    let is_last = slot::forget(plan, session)?;
    if !is_last {
        plan.mark(&keys::left_slots(session));
    }
    Ok(is_last)
}

/// Removes the ranges of a set that no lock state has any more, as many as the command has room for, and
/// leaves the rest.
pub(super) fn of_set(plan: &mut Plan<'_>, set: u64) -> Result<(), Stop> {
    remove_set(plan, set, LeftRanges::default()).map(drop)
}

fn remove_set(plan: &mut Plan<'_>, set: u64, done: LeftRanges) -> Result<bool, Stop> {
    let next = ranges::remove(plan, set, done)?;
    leave(plan, &keys::left_ranges(set), &next.unwrap_or_default(), next.is_none())
}

/// Ends the lock states that came through an open that is closed, as many as the command has room for, and
/// leaves the rest.
pub(super) fn of_open(plan: &mut Plan<'_>, open: &OpenState) -> Result<(), Stop> {
    let (inode, client) = (open.inode, open.client);
    remove_locks(plan, open.stateid.id, LeftLocks { inode, client, from: vec![] }).map(drop)
}

/// Those of the client on the file that came through other opens stay.
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

/// Ends all layouts of a client, as many as the command has room for, and leaves the rest.
pub(super) fn of_layouts(plan: &mut Plan<'_>, client: ClientId) -> Result<(), Stop> {
    let before = StateId(plan.counters()?.next_state);
    let is_last = remove_layouts(plan, client, LeftLayouts { before, after: StateId(0) })?;
    if is_last {
        plan.delete(&keys::left_layouts(client)); // of a return before
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
            layout_state::end(plan, layout)?;
        }
        done.after = id;
    }
    leave(plan, &keys::left_layouts(client), &done, is_last)
}
