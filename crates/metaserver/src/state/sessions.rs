//! Sessions that this server has served since its start.

use std::collections::HashMap;
use std::sync::Arc;

use namespace::{CallbackCredential, Channel, Channels, ClientId, SessionId, read};
use nfs::{Backchannel, Connection, Session, SessionLimits};
use parking_lot::RwLock;
use wire::nfs4::{self};
use wire::rpc::{AuthSys, Credential};

use crate::errors::FileError;
use crate::state::ClientState;

/// Sessions by id, and session ids of each client. Each SEQUENCE looks up its session here, so no operation
/// under the lock goes through all sessions.
#[derive(Default)]
pub(crate) struct Sessions {
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    by_id: HashMap<SessionId, Arc<Session>>,
    of_client: HashMap<ClientId, Vec<SessionId>>,
}

impl Sessions {
    fn get(&self, id: SessionId) -> Option<Arc<Session>> {
        self.known.read().by_id.get(&id).cloned()
    }

    /// Adds a session, unless another call has added it already. Returns the session that stays.
    fn add(&self, id: SessionId, session: Session) -> Arc<Session> {
        let mut known = self.known.write();
        let Known { by_id, of_client } = &mut *known;
        let entry = by_id.entry(id).or_insert_with(|| {
            of_client.entry(ClientId(session.client())).or_default().push(id);
            Arc::new(session)
        });
        Arc::clone(entry)
    }

    pub(crate) fn remove(&self, id: SessionId) {
        let mut known = self.known.write();
        let Some(session) = known.by_id.remove(&id) else { return };
        let client = ClientId(session.client());
        if let Some(of_client) = known.of_client.get_mut(&client) {
            of_client.retain(|other| *other != id);
            if of_client.is_empty() {
                known.of_client.remove(&client);
            }
        }
    }

    pub(crate) fn of_client(&self, client: ClientId) -> Vec<Arc<Session>> {
        let known = self.known.read();
        let ids = known.of_client.get(&client).into_iter().flatten();
        ids.filter_map(|id| known.by_id.get(id).cloned()).collect()
    }

    fn forget_client(&self, client: ClientId) {
        let mut known = self.known.write();
        for id in known.of_client.remove(&client).into_iter().flatten() {
            known.by_id.remove(&id);
        }
    }

    fn ids(&self) -> Vec<SessionId> {
        self.known.read().by_id.keys().copied().collect()
    }
}

fn limits(channel: &Channel) -> SessionLimits {
    SessionLimits {
        request_bytes_max: channel.request_bytes_max,
        response_bytes_max: channel.response_bytes_max,
        cached_bytes_max: channel.cached_bytes_max,
        operations_max: channel.operations_max,
        slots: channel.slots,
    }
}

/// RPC credential of callbacks, from the client's choice in CREATE_SESSION or BACKCHANNEL_CTL.
pub(crate) fn credential(asked: &CallbackCredential) -> Credential {
    match asked.clone() {
        CallbackCredential::Nobody => Credential::None,
        CallbackCredential::Sys { machine, uid, gid, gids } => {
            Credential::Sys(AuthSys { machine: machine.into(), uid, gid, gids })
        }
    }
}

fn session(id: SessionId, client: ClientId, channels: &Channels, adopted: bool) -> Session {
    let wire_id = nfs4::SessionId(id.0);
    let callback = &channels.callback;
    let credential = credential(&callback.credential);
    let back = Backchannel::new(wire_id, callback.program, credential, channels.back.slots, adopted);
    Session::new(wire_id, client.0, limits(&channels.fore), back, adopted)
}

impl ClientState {
    /// Begins a new session on the connection that made it. With `bind`, this connection also carries
    /// callbacks.
    pub(crate) fn begin_session(
        &self,
        id: SessionId,
        client: ClientId,
        channels: &Channels,
        connection: &Arc<Connection>,
        bind: bool,
    ) {
        let made = self.sessions.add(id, session(id, client, channels, false));
        connection.associate(made.id());
        if bind {
            made.back.bind(connection);
        }
    }

    /// Returns the session with this id. A session from before a restart, or of another metaserver, is
    /// adopted.
    pub(crate) fn find_session(&self, id: SessionId) -> Option<Arc<Session>> {
        if let Some(known) = self.sessions.get(id) {
            return Some(known);
        }
        let view = self.machine.view().ok()?;
        let record = read::session(&*view, id).ok()??;
        Some(self.sessions.add(id, session(id, record.client, &record.channels, true)))
    }

    /// Checks that a session still exists, after all changes that were answered before. A request may have
    /// waited here while its client expired. If the request were carried out, the client would take its old
    /// cache for valid.
    ///
    /// # Errors
    /// `BadSession`: the client learns that it has lost all its state, delegations included.
    pub(crate) fn check_session(&self, session: &Session) -> Result<(), FileError> {
        let ends = self.ends.count();
        if session.is_checked(ends) {
            return Ok(()); // the usual case
        }
        let view = self.machine.view()?;
        let record = read::session(&*view, SessionId(session.id().0))?;
        let record = record.ok_or(FileError::State(namespace::Error::BadSession))?;
        if read::client(&*view, record.client)?.is_some_and(|c| c.lapsed.is_some()) {
            // Set before the event arrives here: the request that is being processed ends the courtesy.
            self.leases.set_lapsed(record.client, true);
        }
        session.set_checked(ends);
        Ok(())
    }

    /// Forgets the sessions that are not in the state machine, after a snapshot has replaced its store.
    pub(crate) fn forget_ended_sessions(&self) -> Result<(), FileError> {
        // The list is made before the view, so each of its sessions that has not ended is in the view.
        let known = self.sessions.ids();
        let view = self.machine.view()?;
        for id in known {
            if read::session(&*view, id)?.is_none() {
                self.sessions.remove(id);
            }
        }
        Ok(())
    }

    /// Forgets the lapsed clients that the state machine expired for an OPEN or LOCK of another client. There
    /// is no event for these.
    pub(crate) fn forget_ended_clients(&self) -> Result<(), FileError> {
        let lapsed = self.leases.lapsed_clients();
        let view = self.machine.view()?;
        for client in lapsed {
            if read::client(&*view, client)?.is_none() {
                self.forget_client(client);
            }
        }
        Ok(())
    }

    /// Forgets a client that ended, with all its state.
    pub(crate) fn client_ended(&self, client: ClientId) {
        self.forget_client(client);
    }

    /// Forgets a client and its sessions.
    pub(crate) fn forget_client(&self, client: ClientId) {
        self.leases.forget(client);
        self.sessions.forget_client(client);
        self.lock_waiters.forget_client(client);
        self.delegations.forget_revoked(client);
        self.brief_opens.forget_client(client);
        self.state_returned.notify_waiters();
        self.tell_all_lock_waiters();
    }
}
