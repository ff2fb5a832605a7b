//! CREATE_SESSION and DESTROY_SESSION (RFC 8881, sections 18.36, 18.37).

use std::net::IpAddr;

use super::{client, leftovers};
use crate::plan::{Plan, Stop};
use crate::{
    Callback, Channels, ClientId, ClientRecord, Error, Principal, Reply, SESSIONS_MAX,
    SESSIONS_OF_ADDRESS_MAX, SESSIONS_OF_CLIENT_MAX, SessionId, SessionRecord, keys, read,
};

pub(crate) fn create(
    plan: &mut Plan<'_>,
    client: ClientId,
    sequence: u32,
    principal: &Principal,
    channels: &Channels,
    address: IpAddr,
) -> Result<Reply, Stop> {
    let mut client = client::find(plan, client)?;
    // Client ids can be guessed. So from a new address the client must first prove its verifier, with
    // EXCHANGE_ID.
    if !client.addresses.contains(&address) {
        return Err(Error::StaleClient.into());
    }
    // After the confirmation, other principals of the client may make sessions, too (RFC 8881, section
    // 18.36.4).
    if !client.confirmed && client.principal != *principal {
        return Err(Error::ClientInUse.into());
    }
    if sequence == client.sequence
        && let Some(reply) = client.created_session
    {
        return Ok(reply); // a retry
    }
    if sequence != client.sequence.wrapping_add(1) {
        return Err(Error::Misordered.into());
    }
    let before = match client.confirmed {
        true => None,
        false => client::incarnation_before(plan, &client)?,
    };
    if !client.confirmed {
        client::check_room(plan, &client, before.as_ref())?;
    }
    check_room(plan, &client, before.as_ref())?;

    if !client.confirmed {
        client::confirm(plan, &mut client, before.as_ref())?;
    }
    let number = plan.count(|counters| {
        counters.sessions += 1;
        let number = counters.next_session;
        counters.next_session = counters.next_session.wrapping_add(1);
        number
    })?;
    if let Some(address) = client::counts_at(&client) {
        client::change_address_use(plan, address, |uses| uses.sessions += 1)?;
    }
    let id = session_id(client.id, number, plan.random());
    let record = SessionRecord { id, client: client.id, channels: channels.clone() };
    plan.put(&keys::session(id), &record)?;
    plan.mark(&keys::client_session(client.id, id));
    let ended = before.map(|before| before.id);
    let reply = Reply::Session { id, client: client.id, sequence, channels: channels.clone(), ended };
    client.sequence = sequence;
    client.lapsed = None;
    client.created_session = Some(reply.clone());
    plan.put(&keys::client(client.id), &client)?;
    Ok(reply)
}

/// Checks that `client` may have one more session. The sessions of `before`, its former incarnation, end with
/// this one.
fn check_room(plan: &Plan<'_>, client: &ClientRecord, before: Option<&ClientRecord>) -> Result<(), Stop> {
    let of = |client: &ClientRecord| read::sessions(plan.view(), client.id).map(|sessions| sessions.len());
    let ending = before.map(of).transpose()?.unwrap_or(0) as u32;
    let in_all = plan.counters()?.sessions.saturating_sub(ending);
    let of_address = match client::counts_at(client) {
        Some(address) => {
            let ends_there = before.and_then(client::counts_at) == Some(address);
            let sessions = client::address_use(plan, address)?.sessions;
            sessions.saturating_sub(if ends_there { ending } else { 0 })
        }
        None => 0,
    };
    let full = in_all >= SESSIONS_MAX || of_address >= SESSIONS_OF_ADDRESS_MAX;
    if full || of(client)? >= SESSIONS_OF_CLIENT_MAX {
        return Err(Error::TooManyClients.into());
    }
    Ok(())
}

pub(crate) fn backchannel_ctl(
    plan: &mut Plan<'_>,
    session: SessionId,
    callback: &Callback,
) -> Result<Reply, Stop> {
    let mut record = read::session(plan.view(), session)?.ok_or(Error::BadSession)?;
    record.channels.callback = callback.clone();
    plan.put(&keys::session(session), &record)?;
    Ok(Reply::Done)
}

pub(crate) fn destroy(plan: &mut Plan<'_>, session: SessionId) -> Result<Reply, Stop> {
    let record = read::session(plan.view(), session)?.ok_or(Error::BadSession)?;
    let client = client::find(plan, record.client)?;
    end(plan, &client, session)?;
    Ok(Reply::Done)
}

/// Ends a session, and removes the replies of its slots, perhaps later: see `leftovers.rs`.
pub(super) fn end(plan: &mut Plan<'_>, client: &ClientRecord, session: SessionId) -> Result<(), Stop> {
    plan.count(|counters| counters.sessions = counters.sessions.saturating_sub(1))?;
    if let Some(address) = client::counts_at(client) {
        client::change_address_use(plan, address, |uses| uses.sessions = uses.sessions.saturating_sub(1))?;
    }
    plan.delete(&keys::session(session));
    plan.delete(&keys::client_session(client.id, session));
    leftovers::of_session(plan, session)
}

/// Id of a session. Half of it is random: it must not be guessed, because a caller that has it can act in the
/// session.
///
/// ```text
/// client:4, the lower half of its id    number:4    random:8
/// ```
fn session_id(client: ClientId, number: u32, random: u64) -> SessionId {
    let high = client.0 << 32 | u64::from(number);
    SessionId((u128::from(high) << 64 | u128::from(random)).to_be_bytes())
}
