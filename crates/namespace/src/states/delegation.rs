//! Delegations (RFC 8881, section 10.4): a client with a read delegation opens the file for reading without further
//! requests, and keeps its cached data. One with a write delegation is the only one that has the file open: it also writes
//! later than it closes, and locks ranges by itself. The creator of a file gets one, and an only opener for writing.
//!
//! A grant is part of an OPEN and needs no command of its own. The answer to a conflicting request of another
//! client is [`Reply::Delegated`]. The check is part of the same command, so no grant can come between a
//! recall and the request that it is for. The metaserver then recalls the delegations and proposes the
//! command again. The file is contended from then on: it gets no other delegation until all that there are
//! have ended. Else clients of other metaservers could keep the request waiting for ever.
//!
//! ```text
//! OPEN ──grant──▶ held ──DELEGRETURN──▶ gone
//!                  │ not returned within a lease after its recall
//!                  ▼
//!               revoked ──FREE_STATEID──▶ gone
//! ```
//!
//! A revoked delegation conflicts with nothing. It is kept so that its client learns of the revocation. The layout goes with
//! a write delegation that is revoked, so that data servers refuse what its client writes later.
//!
//! While a client has a write delegation, size, times and data of the file may be newer at the client: whatever tells them to
//! others waits for it as well, which is up to the metaserver ([`read::write_delegation`]). Near a limit there is none, since
//! a client that has closed a file hears of no refusal; and none while a snapshot of the volume is about to be made.

use store::StoreError;

use super::layout_state::{self, Ended};
use super::{conflicts, table};
use crate::files::{epoch, remove};
use crate::plan::{Broken, Plan, Stop};
use crate::record::{Use, get};
use crate::{
    CLIENT_STATES_MAX, ClientId, DelegationKind, DelegationState, Error, Inode, InodeId, Open, OpenTarget,
    Reply, Share, State, StateId, Stateid, WRITE_DELEGATIONS_MAX, keys, read,
};

/// Room in the limits of a file below which it gets no write delegation.
const MARGIN_BYTES: u64 = 1 << 30;

/// Refuses a change of the file by the caller while another client has a delegation of it.
pub(crate) fn check(plan: &Plan<'_>, inode: InodeId) -> Result<(), Stop> {
    check_for(plan, inode, plan.caller())
}

/// Like [`check`], for an OPEN: an OPEN for reading that does not deny reading conflicts with no read delegation.
pub(super) fn check_open(plan: &Plan<'_>, inode: InodeId, open: &Open, truncation: bool) -> Result<(), Stop> {
    let reads = !truncation && !open.access.contains(Share::WRITE) && !open.deny.contains(Share::READ);
    if reads && read::write_delegation(plan.view(), inode)?.is_none() {
        return Ok(());
    }
    check_for(plan, inode, Some(open.client))
}

fn check_for(plan: &Plan<'_>, inode: InodeId, caller: Option<ClientId>) -> Result<(), Stop> {
    if uses(plan, inode)?.delegations == 0 {
        return Ok(()); // the usual case
    }
    match conflicts::held_by_another(plan, &keys::of(keys::DELEGATIONS, &[inode.0]), caller)? {
        Some(false) => Ok(()),
        Some(true) => Err(Stop::Delegated(inode)),
        None => Err(Error::Delay.into()), // leftovers
    }
}

/// Grants a delegation of the file to the client that has just opened it, if it wants one and no other client is in the way.
/// `made`: the file is new; `opens`: 1, or 0 if the delegation is in the place of the open.
pub(super) fn grant(
    plan: &mut Plan<'_>,
    file: &Inode,
    open: &Open,
    made: bool,
    opens: u32,
) -> Result<Option<Stateid>, Stop> {
    let (client, inode) = (open.client, file.id);
    // Of a snapshot: an open under a delegation is not known here, and an open file keeps the snapshot.
    let is_for_none = file.links == 0 || inode.is_read_only();
    if !open.delegate || is_for_none {
        return Ok(None);
    }
    let kind = if open.access == Share::READ { DelegationKind::Read } else { DelegationKind::Write };
    let uses = uses(plan, inode)?;
    let is_free = match kind {
        // A client after OPEN_DOWNGRADE may still write through its layout.
        DelegationKind::Read => uses.writing == 0 && uses.denying_read == 0 && uses.writing_layouts == 0,
        _ => is_sole(&uses, opens) && may_write_later(plan, file, open, made)?,
    };
    // One that has ended may still write, too.
    if !is_free || epoch::is_unfenced(plan, inode)? || is_contended(plan, inode)? {
        return Ok(None);
    }
    let full = read::client_uses(plan.view(), client)? >= CLIENT_STATES_MAX;
    if full || of_client(plan, inode, client)?.is_some() {
        return Ok(None);
    }
    let stateid = table::new_stateid(plan)?;
    let export = open.export;
    let state = DelegationState { stateid, client, inode, kind, export };
    table::insert(plan, &State::Delegation(state))?;
    Ok(Some(stateid))
}

/// True if the file has so many opens, and nothing else.
fn is_sole(uses: &Use, opens: u32) -> bool {
    uses.opens == opens && uses.layouts == 0 && uses.delegations == 0
}

/// True if an only opener may write later than it closes the file.
fn may_write_later(plan: &Plan<'_>, file: &Inode, open: &Open, made: bool) -> Result<bool, Stop> {
    // Opens that its leader has in memory are looked for before an OPEN by name or by handle, and not before a creation.
    if !made && matches!(open.target, OpenTarget::Create { .. }) || open.deny != Share::NONE {
        return Ok(false);
    }
    let history = read::history(plan.view(), file.id.volume())?;
    if history.rolls_back || plan.now() < history.quiet_until {
        return Ok(false);
    }
    let has_room = read::client_uses(plan.view(), open.client)? < WRITE_DELEGATIONS_MAX;
    Ok(has_room && read::room_bytes(plan.view(), file, plan.now())? >= MARGIN_BYTES)
}

fn is_contended(plan: &Plan<'_>, inode: InodeId) -> Result<bool, StoreError> {
    Ok(plan.view().get(&keys::contended(inode))?.is_some())
}

/// A change waits for the delegations of the file: see the module.
pub(crate) fn contend(plan: &mut Plan<'_>, inode: InodeId) -> Result<(), StoreError> {
    if !is_contended(plan, inode)? {
        plan.mark(&keys::contended(inode));
    }
    Ok(())
}

/// The file has no delegation any more.
pub(super) fn ended_all(plan: &mut Plan<'_>, inode: InodeId) -> Result<(), StoreError> {
    if is_contended(plan, inode)? {
        plan.delete(&keys::contended(inode));
    }
    Ok(())
}

/// DELEGRETURN (RFC 8881, section 18.6).
pub(crate) fn give_back(plan: &mut Plan<'_>, client: ClientId, stateid: Stateid) -> Result<Reply, Stop> {
    let State::Delegation(state) = table::find(plan, client, stateid.id)? else {
        return Err(Error::BadStateid.into());
    };
    table::check_sequence(stateid, state.stateid)?;
    if state.is_revoked() {
        return Err(Error::DelegationRevoked.into());
    }
    end(plan, state, Ended::Returned)?;
    Ok(Reply::Done)
}

/// Ends delegations whose clients have the answer to their DELEGRETURN. Opens in the memory of the leader are not looked for:
/// so none ends the layout of a client with such an open.
pub(crate) fn give_all_back(plan: &mut Plan<'_>, returned: &[(ClientId, Stateid)]) -> Result<Reply, Stop> {
    for (client, stateid) in returned {
        match read::state(plan.view(), stateid.id)? {
            Some(State::Delegation(state))
                if state.client == *client && !state.is_revoked() && !ends_a_layout(plan, &state)? =>
            {
                end(plan, state, Ended::Returned)?;
            }
            _ => {}
        }
    }
    Ok(Reply::Done)
}

/// True if a layout ends with the delegation.
fn ends_a_layout(plan: &Plan<'_>, state: &DelegationState) -> Result<bool, Stop> {
    Ok(!has_open(plan, state)? && layout_state::of_client(plan, state.inode, state.client)?.is_some())
}

/// True if the client of the delegation has the file open, too.
fn has_open(plan: &Plan<'_>, state: &DelegationState) -> Result<bool, StoreError> {
    read::any_key(plan.view(), &keys::open(state.inode, state.client, &[]))
}

/// Revokes a delegation that was recalled and not returned in time.
pub(crate) fn revoke(plan: &mut Plan<'_>, client: ClientId, delegation: StateId) -> Result<Reply, Stop> {
    match read::state(plan.view(), delegation)? {
        Some(State::Delegation(state)) if state.client == client && !state.is_revoked() => {
            end(plan, state, Ended::Revoked)?;
            let revoked = DelegationState { kind: DelegationKind::Revoked, ..state };
            table::insert(plan, &State::Delegation(revoked))?;
        }
        _ => {} // returned meanwhile
    }
    Ok(Reply::Done)
}

/// Ends a delegation. If the client has no open of the file, its layout ends as well, for the same reason; if it loses a
/// write delegation, in any case. An unused file without a name is discarded.
pub(super) fn end(plan: &mut Plan<'_>, state: DelegationState, why: Ended) -> Result<(), Stop> {
    table::remove(plan, &State::Delegation(state))?;
    if state.is_revoked() {
        return Ok(());
    }
    let loses = state.writes() && why == Ended::Revoked;
    if loses || !has_open(plan, &state)? {
        layout_state::end_of_client(plan, state.inode, state.client, why)?;
    }
    remove::discard_if_orphan(plan, state.inode)
}

/// Delegation of the file that `client` has, if any.
pub(super) fn of_client(
    plan: &Plan<'_>,
    inode: InodeId,
    client: ClientId,
) -> Result<Option<DelegationState>, Stop> {
    let Some(id) = get::<StateId>(plan.view(), &keys::delegation(inode, client))? else { return Ok(None) };
    match read::state(plan.view(), id)? {
        Some(State::Delegation(state)) => Ok(Some(state)),
        Some(State::Open(_) | State::Lock(_) | State::Layout(_)) | None => {
            Err(Broken("the index of delegations names another state").into())
        }
    }
}

fn uses(plan: &Plan<'_>, inode: InodeId) -> Result<Use, StoreError> {
    Ok(get(plan.view(), &keys::uses(inode))?.unwrap_or_default())
}
