//! Calls of a mount: over one connection to one metaserver, sent again under the same slot and sequence, to
//! the same or another one, until they are answered.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nfs::{CallFailure, Connection, Program, Programs};
use wire::nfs4::bind_conn_to_session::{Args as BindArgs, DirFromClient};
use wire::nfs4::compound::{CompoundCall, CompoundReply};
use wire::nfs4::{self, ArgOp, ResOp, Status, putfh, sequence};
use wire::rpc::{AuthSys, Credential};

use super::callbacks::Callbacks;
use super::{Gone, Mount, Session};
use crate::stream_network::{SimNetwork, socket_address};

/// Longest time of a connection attempt.
const CONNECT_TIME_MAX: Duration = Duration::from_millis(500);
/// Longest time of an answer: longer than a metaserver waits for recalled state.
const ANSWER_TIME_MAX: Duration = Duration::from_millis(2500);

/// PUTFH.
pub fn putfh(fh: &Bytes) -> ArgOp {
    ArgOp::PutFh(putfh::Args { object: fh.clone().into() })
}

impl Mount {
    /// The connection, made if there is none.
    async fn connection(self: &Arc<Self>) -> Option<Arc<Connection>> {
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(open) = self.known().connection.clone().filter(|connection| connection.is_open()) {
            return Some(open);
        }
        let to = {
            let mut known = self.known();
            if known.at == 0 || self.below(3) > 0 {
                known.at = self.within(1..=self.members);
            }
            known.at
        };
        let network = SimNetwork::new(self.address, &self.shared);
        let programs: Vec<Arc<dyn Program>> = vec![Arc::new(Callbacks(Arc::downgrade(self)))];
        let dialled = Connection::dial(&network, socket_address(to), Programs::new(programs));
        let connection = tokio::time::timeout(CONNECT_TIME_MAX, dialled).await.ok()?.ok()?;
        self.shared.note(|| format!("client {} connects to metaserver {to}", self.address));
        let session = {
            let mut known = self.known();
            known.connection = Some(Arc::clone(&connection));
            known.connections += 1;
            known.session
        };
        if let Some(session) = session {
            self.bind(&connection, session).await;
        }
        Some(connection)
    }

    /// Has call-backs come over this connection.
    pub(super) async fn bind(&self, connection: &Connection, session: Session) {
        let bind =
            BindArgs { sessid: session.id, dir: DirFromClient::BackOrBoth, use_conn_in_rdma_mode: false };
        // Whether it succeeded shows in the next SEQUENCE.
        let _ = self.call(connection, vec![ArgOp::BindConnToSession(bind)]).await;
    }

    async fn call(&self, connection: &Connection, ops: Vec<ArgOp>) -> Result<CompoundReply, CallFailure> {
        let credential = Credential::Sys(AuthSys::default());
        let procedure = (nfs4::PROGRAM, nfs4::VERSION, nfs4::PROC_COMPOUND);
        let call = CompoundCall::new(1, ops);
        let results = connection.call(procedure, credential, &call, ANSWER_TIME_MAX).await?;
        CompoundReply::decode_all(results).map_err(|_| CallFailure::Malformed)
    }

    /// Gives up a connection that does not answer.
    async fn disconnect(&self, connection: &Arc<Connection>) {
        self.shared
            .note(|| format!("client {} got no answer from metaserver {}", self.address, self.known().at));
        connection.close();
        let pause_ms = {
            let mut known = self.known();
            if known.connection.as_ref().is_some_and(|open| Arc::ptr_eq(open, connection)) {
                known.connection = None;
            }
            self.within(1..=50)
        };
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
    }

    /// One operation outside of a session.
    pub(super) async fn alone(self: &Arc<Self>, op: ArgOp) -> ResOp {
        loop {
            let Some(connection) = self.connection().await else {
                tokio::time::sleep(Duration::from_millis(self.within(1..=50))).await;
                continue;
            };
            match self.call(&connection, vec![op.clone()]).await {
                Ok(mut reply) if !reply.ops.is_empty() && reply.status != Status::Delay => {
                    return reply.ops.remove(0);
                }
                Ok(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                Err(_) => self.disconnect(&connection).await,
            }
        }
    }

    /// The session, once there is one.
    async fn session(&self) -> Session {
        loop {
            let mounted = self.mounted.notified();
            if let Some(session) = self.known().session {
                return session;
            }
            mounted.await;
        }
    }

    /// Session and life in force.
    pub(super) async fn begin(&self) -> Session {
        self.session().await
    }

    /// SEQUENCE and these operations, in this session; results without that of SEQUENCE.
    pub(super) async fn compound(
        self: &Arc<Self>,
        session: Session,
        slot: u32,
        ops: Vec<ArgOp>,
    ) -> Result<Vec<ResOp>, Gone> {
        let sequenceid = {
            let mut known = self.known();
            known.sequences[slot as usize] += 1;
            known.repeated[slot as usize] = false;
            known.sequences[slot as usize]
        };
        let first = sequence::Args {
            sessionid: session.id,
            sequenceid,
            slotid: slot,
            highest_slotid: slot,
            cachethis: true,
        };
        let ops = [vec![ArgOp::Sequence(first)], ops].concat();
        loop {
            if self.known().session.is_none_or(|now| now.id != session.id) {
                return Err(Gone);
            }
            let Some(connection) = self.connection().await else {
                tokio::time::sleep(Duration::from_millis(self.within(1..=50))).await;
                continue;
            };
            let sent_ms = self.shared.now_ms();
            let Ok(reply) = self.call(&connection, ops.clone()).await else {
                self.known().repeated[slot as usize] = true;
                self.disconnect(&connection).await;
                continue;
            };
            let mut results = reply.ops.into_iter();
            match results.next() {
                Some(ResOp::Sequence(Ok(answer))) => {
                    let now_ms = self.shared.now_ms();
                    self.shared.claims().renewed(session.life, sent_ms, now_ms);
                    self.note_flags(answer.status_flags);
                    let results: Vec<ResOp> = results.collect();
                    let status = reply.status;
                    let names = || -> Vec<_> { ops[1..].iter().map(ArgOp::name).collect() };
                    let client = self.address;
                    self.shared.note(|| format!("client {client}.{slot}: {:?} {status:?}", names()));
                    return Ok(results);
                }
                Some(ResOp::Sequence(Err(Status::Delay))) => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                Some(other) => {
                    self.lose_session(session, other.status());
                    return Err(Gone);
                }
                None => self.disconnect(&connection).await,
            }
        }
    }

    fn note_flags(&self, flags: u32) {
        let mut known = self.known();
        known.must_bind = flags & (sequence::CB_PATH_DOWN | sequence::CB_PATH_DOWN_SESSION) != 0;
        known.must_free = flags & sequence::RECALLABLE_STATE_REVOKED != 0;
    }

    /// The metaservers do not know the session any more.
    fn lose_session(&self, session: Session, status: Status) {
        let now_ms = self.shared.now_ms();
        {
            let mut known = self.known();
            if known.session.is_none_or(|now| now.id != session.id) {
                return;
            }
            known.session = None;
            known.opens.clear();
            known.layouts.clear();
            known.delegations.clear();
        }
        self.shared.note(|| format!("client {} loses its session: {status:?}", self.address));
        let mut claims = self.shared.claims();
        match status {
            Status::BadSession | Status::DeadSession | Status::StaleClientid => {
                claims.loses(session.life, now_ms, &format!("its session: {status:?}"));
            }
            other => claims.unexpected.push(format!("SEQUENCE of client {:?}: {other:?}", session.life)),
        }
        claims.end_all(session.life, now_ms);
        drop(claims);
        self.lock_is_free.notify_waiters();
        self.recalled.notify_one();
    }
}
