//! The sessions that this server has served since it started.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use namespace::{CallbackCredential, Channel, Channels, ClientId, SessionId, read};
use nfs::{Backchannel, Connection, Session, SessionLimits};
use store::View;
use wire::nfs4::{self, Status};
use wire::rpc::{AuthSys, Credential};

use crate::Metaserver;
use crate::errors::store_failed;

type ServerView = Box<dyn View + Send + Sync>;

/// Sessions by id.
#[derive(Default)]
pub(crate) struct Sessions {
    known: Mutex<HashMap<SessionId, Arc<Session>>>,
}

impl Sessions {
    fn get(&self, id: SessionId) -> Option<Arc<Session>> {
        self.known.lock().ok()?.get(&id).cloned()
    }

    /// Adds a session, unless another call was faster; returns the one that stays.
    fn add(&self, id: SessionId, session: Session) -> Option<Arc<Session>> {
        Some(Arc::clone(self.known.lock().ok()?.entry(id).or_insert_with(|| Arc::new(session))))
    }

    pub(crate) fn remove(&self, id: SessionId) {
        if let Ok(mut known) = self.known.lock() {
            known.remove(&id);
        }
    }

    pub(crate) fn of_client(&self, client: ClientId) -> Vec<Arc<Session>> {
        self.known
            .lock()
            .map_or(vec![], |known| known.values().filter(|s| s.client() == client.0).cloned().collect())
    }

    /// Keeps those that the state machine has. Whether one went.
    fn forget_ended(&self, view: impl FnOnce() -> Result<ServerView, Status>) -> Result<bool, Status> {
        let mut known = self.known.lock().map_err(|_| Status::ServerFault)?;
        // Taken while none can be added, so that it has every session that is known.
        let view = view()?;
        let before = known.len();
        known.retain(|id, _| !matches!(read::session(&*view, *id), Ok(None)));
        Ok(known.len() < before)
    }

    fn forget_client(&self, client: ClientId) {
        if let Ok(mut known) = self.known.lock() {
            known.retain(|_, s| s.client() != client.0);
        }
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

/// What call-backs carry.
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

impl Metaserver {
    /// A session that was just made, over the connection that made it. `bind`: it also carries call-backs.
    pub(crate) fn begin_session(
        &self,
        id: SessionId,
        client: ClientId,
        channels: &Channels,
        connection: &Arc<Connection>,
        bind: bool,
    ) {
        let Some(made) = self.sessions.add(id, session(id, client, channels, false)) else { return };
        connection.associate(made.id());
        if bind {
            made.back.bind(connection);
        }
    }

    /// The session with this id, adopted if an earlier life of this server, or another metaserver, served it.
    pub(crate) fn find_session(&self, id: SessionId) -> Option<Arc<Session>> {
        if let Some(known) = self.sessions.get(id) {
            return Some(known);
        }
        let view = self.view().ok()?;
        let record = read::session(&*view, id).ok()??;
        self.sessions.add(id, session(id, record.client, &record.channels, true))
    }

    /// Whether a session is still there, once all that was answered before is seen. A request may have waited here while its
    /// client was expired: if it were carried out, the client would go on with what it has cached, and take it for new.
    ///
    /// # Errors
    /// `BadSession`: the client learns that it has nothing any more, delegations included.
    pub(crate) fn check_session(&self, session: &Session) -> Result<(), Status> {
        let ends = self.ends.count();
        if session.is_checked(ends) {
            return Ok(()); // nearly always
        }
        let view = self.view()?;
        let record = read::session(&*view, SessionId(session.id().0)).map_err(store_failed)?;
        let record = record.ok_or(Status::BadSession)?;
        if read::client(&*view, record.client).map_err(store_failed)?.is_some_and(|c| c.lapsed.is_some()) {
            // Before its word arrives here: the request that comes now ends the courtesy.
            self.leases.set_lapsed(record.client, true);
        }
        session.set_checked(ends);
        Ok(())
    }

    /// Forgets the sessions that ended in the state machine without a word about them: those of a client that
    /// restarted. Seldom enough (once for each mount) that looking at all costs less than an index.
    pub(crate) fn forget_ended_sessions(&self) -> Result<(), Status> {
        if self.sessions.forget_ended(|| self.view())? {
            // The old incarnation's layouts went, too, and with its opens perhaps files that had no name.
            self.layouts_returned.notify_waiters();
            self.work_ready.notify_one();
            self.tell_all_lock_waiters();
        }
        Ok(())
    }

    /// The client is gone, and its sessions with it.
    pub(crate) fn forget_client(&self, client: ClientId) {
        self.leases.forget(client);
        self.sessions.forget_client(client);
        self.lock_waiters.forget_client(client);
        self.delegations.forget_revoked(client);
        self.layouts_returned.notify_waiters();
        self.tell_all_lock_waiters();
    }
}
