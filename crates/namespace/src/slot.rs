//! Replay cache of a session slot: the reply to each change of the slot's last compound.
//!
//! ```text
//! first change of a sequence   14 session slot        -> its sequence, index and reply; replaces the one
//! before each further change          15 session slot index  -> its reply
//! ```
//!
//! Nearly every compound has one change, and so one put. A compound with n changes has n + 1 puts: the second
//! change marks in the slot that there are more, so that the first change of the next sequence knows whether
//! there are replies to remove. Bounded: the session's limits bound the number of its slots, and the number
//! of changes of a compound.
//!
//! A change that waits for delegations has [`Reply::Delegated`] in the slot, which is no reply: the change is
//! proposed again. It is there for its sequence, which refuses late copies of the slot's earlier compounds. Neither is
//! [`Reply::Claimed`] a reply: the last claim replaces the one before.

use std::ops::ControlFlow;

use store::{StoreError, View};

use crate::plan::Plan;
use crate::record::{SlotRecord, get};
use crate::{
    ClientId, CompoundRequest, Error, RECORDS_OF_COMMAND_MAX, Reply, SessionId, SessionRecord, keys, read,
};

/// Result of a replay look-up for a command.
pub(crate) enum Replay {
    /// The command was answered so before, or is too late.
    Reply(Reply),
    /// The command is new; has the record of the slot, and the client of the session.
    New(Option<SlotRecord>, ClientId),
}

pub(crate) fn replay(view: &dyn View, request: &CompoundRequest) -> Result<Replay, StoreError> {
    let refused = |error| Ok(Replay::Reply(Reply::Refused(error)));
    let Some(SessionRecord { client, .. }) = read::session(view, request.session)? else {
        return refused(Error::BadSession);
    };
    let Some(slot) = get::<SlotRecord>(view, &keys::slot(request.session, request.slot))? else {
        return Ok(Replay::New(None, client));
    };
    // Sequences wrap (RFC 8881, section 2.10.6.1).
    if (request.sequence.wrapping_sub(slot.sequence) as i32) < 0 {
        return refused(Error::Misordered);
    }
    match reply_in(view, request, &slot)? {
        Some(reply) => Ok(Replay::Reply(reply)),
        None => Ok(Replay::New(Some(slot), client)),
    }
}

/// Reply to the command with this request id, if the slot still has it.
pub(crate) fn reply(view: &dyn View, request: &CompoundRequest) -> Result<Option<Reply>, StoreError> {
    match get::<SlotRecord>(view, &keys::slot(request.session, request.slot))? {
        Some(slot) => reply_in(view, request, &slot),
        None => Ok(None),
    }
}

fn reply_in(
    view: &dyn View,
    request: &CompoundRequest,
    slot: &SlotRecord,
) -> Result<Option<Reply>, StoreError> {
    if slot.sequence != request.sequence {
        return Ok(None);
    }
    if slot.index == request.index {
        return Ok((!is_waiting(&slot.reply)).then(|| slot.reply.clone()));
    }
    Ok(other_reply(view, request, slot)?.filter(|reply| !is_waiting(reply)))
}

/// Reply to another change than the first one of the sequence.
fn other_reply(
    view: &dyn View,
    request: &CompoundRequest,
    slot: &SlotRecord,
) -> Result<Option<Reply>, StoreError> {
    match slot.more {
        true => get(view, &keys::slot_reply(request.session, request.slot, request.index)),
        false => Ok(None),
    }
}

fn is_waiting(reply: &Reply) -> bool {
    matches!(reply, Reply::Delegated { .. } | Reply::Claimed { .. })
}

/// The claim of a request: see [`Command::ClaimWrite`](crate::Command::ClaimWrite).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claimant {
    /// It was not claimed.
    Unclaimed,
    /// By the attempt with this id.
    Attempt(u64),
    /// It was answered, its slot has gone on, or its session is gone.
    Past,
}

/// The last claim of a request; `request` is the id of the claim.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn claimant(view: &dyn View, request: &CompoundRequest) -> Result<Claimant, StoreError> {
    if read::session(view, request.session)?.is_none() {
        return Ok(Claimant::Past);
    }
    let Some(slot) = get::<SlotRecord>(view, &keys::slot(request.session, request.slot))? else {
        return Ok(Claimant::Unclaimed);
    };
    let reply = match request.sequence.wrapping_sub(slot.sequence) as i32 {
        ..0 => return Ok(Claimant::Past),
        1.. => None,
        0 if slot.index == request.index => Some(slot.reply),
        0 => other_reply(view, request, &slot)?,
    };
    Ok(match reply {
        Some(Reply::Claimed { id }) => Claimant::Attempt(id),
        // A claim that came after the answer.
        Some(Reply::Refused(_)) => Claimant::Past,
        _ => Claimant::Unclaimed,
    })
}

/// Records a reply. `slot` is the record that [`replay`] found.
pub(crate) fn remember(
    plan: &mut Plan<'_>,
    request: &CompoundRequest,
    slot: Option<SlotRecord>,
    reply: &Reply,
) -> Result<(), StoreError> {
    if read::session(plan.view(), request.session)?.is_none() {
        return Ok(()); // the command ended the session
    }
    let key = keys::slot(request.session, request.slot);
    match slot {
        Some(slot) if slot.sequence == request.sequence && slot.index == request.index => {
            plan.put(&key, &SlotRecord { reply: reply.clone(), ..slot })
        }
        // The sequence is there already.
        Some(slot) if slot.sequence == request.sequence && matches!(reply, Reply::Delegated { .. }) => Ok(()),
        Some(slot) if slot.sequence == request.sequence => {
            if !slot.more {
                plan.put(&key, &SlotRecord { more: true, ..slot })?;
            }
            let key = keys::slot_reply(request.session, request.slot, request.index);
            plan.put(&key, reply)
        }
        before => {
            if before.is_some_and(|slot| slot.more) {
                delete_all(plan, &keys::slot_replies(request.session, Some(request.slot)))?;
            }
            let (sequence, index) = (request.sequence, request.index);
            plan.put(&key, &SlotRecord { sequence, index, reply: reply.clone(), more: false })
        }
    }
}

/// Removes the slots of a session, up to the bound of the command. Returns true if all are removed: a session
/// has up to 64 slots of 128 replies.
pub(crate) fn forget(plan: &mut Plan<'_>, session: SessionId) -> Result<bool, StoreError> {
    for prefix in [keys::slots(session), keys::slot_replies(session, None)] {
        let mut some = Vec::new();
        read::scan_keys(plan.view(), &prefix, |key| {
            some.push(key.to_vec());
            if some.len() <= RECORDS_OF_COMMAND_MAX {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        for key in some {
            if plan.is_full() {
                return Ok(false);
            }
            plan.delete(&key);
        }
    }
    Ok(true)
}

fn delete_all(plan: &mut Plan<'_>, prefix: &[u8]) -> Result<(), StoreError> {
    for key in keys_under(plan.view(), prefix)? {
        plan.delete(&key);
    }
    Ok(())
}

pub(crate) fn keys_under(view: &dyn View, prefix: &[u8]) -> Result<Vec<keys::Key>, StoreError> {
    let mut found = Vec::new();
    read::scan_keys(view, prefix, |key| {
        found.push(key.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(found)
}
