//! Reads of clients, their sessions, and recorded replies.

use std::ops::ControlFlow;

use store::{StoreError, View};

use super::scan_keys;
use crate::record::get;
use crate::{ClientId, ClientRecord, Reply, RequestId, SessionId, SessionRecord, calls, keys, servers, slot};

/// Client with this id, confirmed or not.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn client(view: &dyn View, client: ClientId) -> Result<Option<ClientRecord>, StoreError> {
    get(view, &keys::client(client))
}

/// All clients, confirmed or not.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn clients(view: &dyn View) -> Result<Vec<ClientId>, StoreError> {
    let mut clients = Vec::new();
    scan_keys(view, &[keys::CLIENTS], |key| {
        clients.push(ClientId(keys::number(key, 1)));
        ControlFlow::Continue(())
    })?;
    Ok(clients)
}

/// Session with this id.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn session(view: &dyn View, session: SessionId) -> Result<Option<SessionRecord>, StoreError> {
    get(view, &keys::session(session))
}

/// Sessions of a client.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn sessions(view: &dyn View, client: ClientId) -> Result<Vec<SessionId>, StoreError> {
    let mut sessions = Vec::new();
    scan_keys(view, &keys::of(keys::CLIENT_SESSIONS, &[client.0]), |key| {
        sessions.extend(key.get(9..).and_then(|id| id.try_into().ok()).map(SessionId));
        ControlFlow::Continue(())
    })?;
    Ok(sessions)
}

/// Recorded reply to the command with this request id, if it was applied before.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn recorded(view: &dyn View, request: &RequestId) -> Result<Option<Reply>, StoreError> {
    match request {
        RequestId::Compound(request) => slot::reply(view, request),
        RequestId::Call(call, index) => calls::reply(view, call, *index),
        RequestId::Server(request) => servers::reply(view, request),
    }
}
