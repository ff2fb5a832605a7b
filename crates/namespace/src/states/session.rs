//! CREATE_SESSION and DESTROY_SESSION (RFC 8881, sections 18.36, 18.37).

use store::StoreError;

use super::client;
use crate::step::{Step, Stop};
use crate::{
    Callback, Channels, ClientId, Error, Principal, Reply, SessionId, SessionRecord, keys, read, slot,
};

pub(crate) fn create(
    step: &mut Step<'_>,
    client: ClientId,
    sequence: u32,
    principal: &Principal,
    channels: &Channels,
) -> Result<Reply, Stop> {
    let mut client = client::find(step, client)?;
    // Once it is confirmed, other principals of the client make sessions, too (RFC 8881, section 18.36.4).
    if !client.confirmed && client.principal != *principal {
        return Err(Error::ClientInUse.into());
    }
    if sequence == client.sequence
        && let Some(reply) = client.created_session
    {
        return Ok(reply); // a repetition
    }
    if sequence != client.sequence.wrapping_add(1) {
        return Err(Error::Misordered.into());
    }
    if !client.confirmed {
        client::confirm(step, &mut client)?;
    }
    let number = step.count(|counters| {
        let number = counters.next_session;
        counters.next_session = counters.next_session.wrapping_add(1);
        number
    })?;
    let id = session_id(client.id, number, step.random());
    let record = SessionRecord { id, client: client.id, channels: channels.clone() };
    step.put(&keys::session(id), &record)?;
    step.mark(&keys::client_session(client.id, id))?;
    let reply = Reply::Session { id, client: client.id, sequence, channels: channels.clone() };
    client.sequence = sequence;
    client.lapsed = None;
    client.created_session = Some(reply.clone());
    step.put(&keys::client(client.id), &client)?;
    Ok(reply)
}

pub(crate) fn backchannel_ctl(
    step: &mut Step<'_>,
    session: SessionId,
    callback: &Callback,
) -> Result<Reply, Stop> {
    let mut record = read::session(step.view(), session)?.ok_or(Error::BadSession)?;
    record.channels.callback = callback.clone();
    step.put(&keys::session(session), &record)?;
    Ok(Reply::Done)
}

pub(crate) fn destroy(step: &mut Step<'_>, session: SessionId) -> Result<Reply, Stop> {
    let record = read::session(step.view(), session)?.ok_or(Error::BadSession)?;
    end(step, record.client, session)?;
    Ok(Reply::Done)
}

/// Ends a session, and forgets the replies of its slots.
pub(super) fn end(step: &mut Step<'_>, client: ClientId, session: SessionId) -> Result<(), StoreError> {
    slot::forget(step, session)?;
    step.delete(&keys::session(session))?;
    step.delete(&keys::client_session(client, session))
}

/// ```text
/// client:8 number:4 random:4
/// ```
fn session_id(client: ClientId, number: u32, random: u64) -> SessionId {
    let low = u128::from(number) << 32 | u128::from(random as u32);
    SessionId((u128::from(client.0) << 64 | low).to_be_bytes())
}
