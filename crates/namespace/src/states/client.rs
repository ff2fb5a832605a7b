//! EXCHANGE_ID, DESTROY_CLIENTID, RECLAIM_COMPLETE, and the end of a client (RFC 8881, sections 18.35, 18.50, 18.51).
//!
//! A `co_ownerid` has at most two records: the incarnation in use, which is confirmed, and one that CREATE_SESSION would
//! put in its place. The cases below are those of the table in section 18.35.5. At most [`UNCONFIRMED_MAX`] records are
//! unconfirmed, whoever asks for how many.
//!
//! A client whose lease has run out is *lapsed*: it keeps what it has by courtesy. Whoever wants what it has in the way
//! ends it, and goes on ([`all_lapsed`]); if it is heard of before that, nothing has happened.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use store::StoreError;

use super::{delegation, open, session};
use crate::record::{OwnerRecord, get};
use crate::step::{Step, Stop};
use crate::{ClientId, ClientRecord, Error, Principal, Reply, State, UNCONFIRMED_MAX, keys, read};

pub(crate) fn exchange_id(
    step: &mut Step<'_>,
    owner: &[u8],
    verifier: [u8; 8],
    principal: &Principal,
    update: bool,
) -> Result<Reply, Stop> {
    let known = owner_record(step, owner)?;
    let confirmed = match known.confirmed {
        Some(id) => read::client(step.view(), id)?,
        None => None,
    };
    match confirmed {
        // Cases 7, 8, 9 and 6: an update must be by the client that is confirmed.
        None if update => Err(Error::NotConfirmed.into()),
        Some(client) if update => {
            if client.verifier != verifier {
                return Err(Error::NotSame.into());
            }
            if client.principal != *principal {
                return Err(Error::Permission.into());
            }
            Ok(confirmed_reply(&client))
        }
        // Case 3: two clients chose one owner. The older keeps it as long as it has anything to lose.
        Some(client) if client.principal != *principal => {
            if client.lapsed.is_none() && is_busy(step, client.id)? {
                return Err(Error::ClientInUse.into());
            }
            end(step, &client)?;
            replace_unconfirmed(step, owner, verifier, principal)
        }
        // Case 2: the client asks again, or through another path.
        Some(client) if client.verifier == verifier => Ok(confirmed_reply(&client)),
        // Case 5: the client restarted. Its old state goes when it confirms this.
        Some(_) => replace_unconfirmed(step, owner, verifier, principal),
        // Cases 1 and 4.
        None => replace_unconfirmed(step, owner, verifier, principal),
    }
}

fn confirmed_reply(client: &ClientRecord) -> Reply {
    Reply::Client { id: client.id, sequence: client.sequence.wrapping_add(1), confirmed: true }
}

/// Makes an unconfirmed record in the place of the one that may be there.
fn replace_unconfirmed(
    step: &mut Step<'_>,
    owner: &[u8],
    verifier: [u8; 8],
    principal: &Principal,
) -> Result<Reply, Stop> {
    if let Some(old) = owner_record(step, owner)?.unconfirmed
        && let Some(old) = read::client(step.view(), old)?
    {
        end(step, &old)?;
    }
    if step.counters()?.unconfirmed >= UNCONFIRMED_MAX
        && let Some(oldest) = oldest_unconfirmed(step)?
    {
        end(step, &oldest)?;
    }
    let id = step.count(|counters| {
        counters.unconfirmed += 1;
        let id = ClientId(u64::from(counters.client_prefix) << 32 | u64::from(counters.next_client));
        counters.next_client = counters.next_client.wrapping_add(1);
        id
    })?;
    let client = ClientRecord {
        id,
        owner: owner.to_vec(),
        verifier,
        principal: principal.clone(),
        confirmed: false,
        sequence: 0,
        created_session: None,
        reclaim_complete: false,
        lapsed: None,
    };
    step.put(&keys::client(id), &client)?;
    step.mark(&keys::unconfirmed(id))?;
    let known = OwnerRecord { unconfirmed: Some(id), ..owner_record(step, owner)? };
    step.put(&keys::owner(owner), &known)?;
    Ok(Reply::Client { id, sequence: 1, confirmed: false })
}

/// Ids ascend, so the oldest is the first.
fn oldest_unconfirmed(step: &Step<'_>) -> Result<Option<ClientRecord>, StoreError> {
    let mut oldest = None;
    read::scan_keys(step.view(), &[keys::UNCONFIRMED], |key| {
        oldest = Some(ClientId(keys::number(key, 1)));
        ControlFlow::Break(())
    })?;
    match oldest {
        Some(id) => read::client(step.view(), id),
        None => Ok(None),
    }
}

/// It is confirmed, or gone.
fn no_more_unconfirmed(step: &mut Step<'_>, client: ClientId) -> Result<(), StoreError> {
    step.delete(&keys::unconfirmed(client))?;
    step.count(|counters| counters.unconfirmed = counters.unconfirmed.saturating_sub(1))
}

/// Makes `client` the confirmed one of its owner, and ends the incarnation before it. The caller puts its record.
pub(super) fn confirm(step: &mut Step<'_>, client: &mut ClientRecord) -> Result<(), StoreError> {
    if let Some(old) = owner_record(step, &client.owner)?.confirmed
        && let Some(old) = read::client(step.view(), old)?
    {
        end(step, &old)?;
    }
    no_more_unconfirmed(step, client.id)?;
    client.confirmed = true;
    let known = OwnerRecord { confirmed: Some(client.id), unconfirmed: None };
    step.put(&keys::owner(&client.owner), &known)
}

pub(crate) fn destroy(step: &mut Step<'_>, client: ClientId) -> Result<Reply, Stop> {
    let client = find(step, client)?;
    if is_busy(step, client.id)? {
        return Err(Error::ClientBusy.into());
    }
    end(step, &client)?;
    Ok(Reply::Done)
}

pub(crate) fn lapse_lease(step: &mut Step<'_>, client: ClientId) -> Result<Reply, Stop> {
    let mut client = find(step, client)?;
    if !read::has_state(step.view(), client.id)? {
        end(step, &client)?;
    } else if client.lapsed.is_none() {
        client.lapsed = Some(step.now());
        step.put(&keys::client(client.id), &client)?;
    }
    Ok(Reply::Done)
}

pub(crate) fn renew_lease(step: &mut Step<'_>, client: ClientId) -> Result<Reply, Stop> {
    let mut client = find(step, client)?;
    if client.lapsed.take().is_some() {
        step.put(&keys::client(client.id), &client)?;
    }
    Ok(Reply::Done)
}

pub(crate) fn expire(step: &mut Step<'_>, client: ClientId) -> Result<Reply, Stop> {
    let client = find(step, client)?;
    if client.lapsed.is_none() {
        return Err(Error::ClientBusy.into());
    }
    end(step, &client)?;
    Ok(Reply::Done)
}

/// What is in the way belongs to `holders`. Their records if all of them have it by courtesy only, so that the caller may
/// [`end`] them; none if one of them is alive, or is the client that asks.
pub(super) fn all_lapsed(
    step: &Step<'_>,
    holders: BTreeSet<ClientId>,
    asks: ClientId,
) -> Result<Option<Vec<ClientRecord>>, StoreError> {
    let mut lapsed = Vec::new();
    for holder in holders {
        match read::client(step.view(), holder)? {
            Some(client) if client.lapsed.is_some() && holder != asks => lapsed.push(client),
            _ => return Ok(None),
        }
    }
    Ok(Some(lapsed))
}

pub(crate) fn reclaim_complete(step: &mut Step<'_>, client: ClientId) -> Result<Reply, Stop> {
    let mut client = find(step, client)?;
    if client.reclaim_complete {
        return Err(Error::CompleteAlready.into());
    }
    client.reclaim_complete = true;
    step.put(&keys::client(client.id), &client)?;
    Ok(Reply::Done)
}

pub(super) fn find(step: &Step<'_>, client: ClientId) -> Result<ClientRecord, Stop> {
    Ok(read::client(step.view(), client)?.ok_or(Error::StaleClient)?)
}

fn owner_record(step: &Step<'_>, owner: &[u8]) -> Result<OwnerRecord, StoreError> {
    Ok(get(step.view(), &keys::owner(owner))?.unwrap_or_default())
}

fn is_busy(step: &Step<'_>, client: ClientId) -> Result<bool, StoreError> {
    Ok(read::has_state(step.view(), client)?
        || read::any_key(step.view(), &keys::of(keys::CLIENT_SESSIONS, &[client.0]))?)
}

/// Ends a client with all that it has: opens, and with them locks and layouts; sessions, and with them slots.
pub(super) fn end(step: &mut Step<'_>, client: &ClientRecord) -> Result<(), StoreError> {
    for id in read::states(step.view(), client.id)? {
        // Locks and layouts live under opens and delegations, and may be gone already.
        match read::state(step.view(), id)? {
            Some(State::Open(state)) => open::end(step, &state)?,
            Some(State::Delegation(state)) => delegation::end(step, state)?,
            Some(State::Lock(_) | State::Layout(_)) | None => {}
        }
    }
    for id in read::sessions(step.view(), client.id)? {
        session::end(step, client.id, id)?;
    }
    if !client.confirmed {
        no_more_unconfirmed(step, client.id)?;
    }
    step.delete(&keys::client(client.id))?;
    let mut known = owner_record(step, &client.owner)?;
    known.confirmed = known.confirmed.filter(|id| *id != client.id);
    known.unconfirmed = known.unconfirmed.filter(|id| *id != client.id);
    let key = keys::owner(&client.owner);
    if known == OwnerRecord::default() { step.delete(&key) } else { step.put(&key, &known) }
}
