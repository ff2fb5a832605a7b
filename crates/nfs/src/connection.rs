//! TCP connection, opened by either side. Incoming calls are answered as they finish, in any order; replies
//! to outgoing calls are matched by xid.

mod guards;
mod segments;

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::{Buf, Bytes};
use host::BufferPool;
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::time::Instant;
use wire::nfs4::SessionId;
use wire::rpc::{CallError, CallHeader, Credential, MESSAGE_CALL, Rejection, ReplyHeader, frame, reply};
use wire::xdr::{Decoder, Encode, Encoder, Message};

use self::guards::{CloseOnDrop, Waiting};
use self::segments::Segments;
use crate::limits::{Budgets, Gate, HELD_CALLS_MAX, ReplyGate, Standing, is_too_late, tick};
use crate::record::{Record, RecordReader};
use crate::stream::{Stream, StreamNetwork, StreamReader, StreamWriter};
use crate::{Call, Limits, Metrics, Programs, ReplyRoom};

/// Id of a connection, unique in this process and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(u64);

/// Sessions that one connection remembers; Linux has one for each connection. A forgotten session is
/// associated again by its next request.
const SESSIONS_MAX: usize = 64;

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Failure of an outgoing call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallFailure {
    /// The connection ended. Whether the call was executed is unknown.
    #[error("connection closed")]
    Closed,
    /// No reply within the limit. Whether the call was executed is unknown.
    #[error("no answer in {0:?}")]
    TimedOut(Duration),
    /// The RPC layer of the other side rejected the call.
    #[error("call rejected: {0:?}")]
    Rejected(Rejection),
    /// The results do not decode.
    #[error("malformed reply")]
    Malformed,
    /// No connection to the other side.
    #[error("connect: {0}")]
    Connect(String),
}

/// Connection; lives until its reading task ends. See [`Connection::start`].
pub struct Connection {
    id: ConnectionId,
    peer: SocketAddr,
    local: SocketAddr,
    writer: tokio::sync::Mutex<Box<dyn StreamWriter>>,
    limits: Limits,
    standing: Standing,
    replies: Arc<ReplyGate>,
    /// Calls in flight and the time of the last one: the server may close an idle connection to accept
    /// another.
    activity: Mutex<Activity>,
    pending: Mutex<Pending>,
    next_xid: AtomicU32,
    closed: Notify,
    ended: Semaphore,
    abandoned: AtomicBool,
    /// Associated sessions, least recently used first. See [`Connection::associate`].
    sessions: Mutex<Vec<SessionId>>,
    held_calls: Arc<Semaphore>,
}

/// Activity of a connection.
#[derive(Debug, Clone, Copy)]
struct Activity {
    calls: usize,
    last: Instant,
}

#[derive(Default)]
struct Pending {
    /// Calls that wait for a reply, by xid; none after the connection was closed.
    calls: Option<BTreeMap<u32, oneshot::Sender<(ReplyHeader, Decoder)>>>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connection({}, {})", self.id.0, self.peer)
    }
}

/// Context of a connection: the parts of its server that it needs.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub limits: Limits,
    pub programs: Programs,
    pub budgets: Budgets,
    pub pool: BufferPool,
    pub metrics: Arc<Metrics>,
}

impl Surroundings {
    pub(crate) fn new(limits: Limits, programs: Programs, pool: BufferPool, metrics: Arc<Metrics>) -> Self {
        Self { budgets: Budgets::new(&limits), limits, programs, pool, metrics }
    }
}

impl Connection {
    /// Takes over `stream` and reads it in a task of its own, until the other side closes it or breaks the
    /// rules.
    pub(crate) fn start(stream: Stream, around: Surroundings) -> Arc<Self> {
        let Stream { reader, writer, peer, local } = stream;
        let id = ConnectionId(NEXT_ID.fetch_add(1, Ordering::Relaxed));
        let standing = Standing::default();
        let replies = ReplyGate::new(
            &around.limits,
            &around.budgets,
            peer.ip(),
            standing.clone(),
            Arc::clone(&around.metrics),
        );
        let connection = Arc::new(Self {
            id,
            peer,
            local,
            writer: tokio::sync::Mutex::new(writer),
            replies,
            standing,
            limits: around.limits.clone(),
            activity: Mutex::new(Activity { calls: 0, last: Instant::now() }),
            pending: Mutex::new(Pending { calls: Some(BTreeMap::new()) }),
            next_xid: AtomicU32::new(1),
            closed: Notify::new(),
            ended: Semaphore::new(0),
            abandoned: AtomicBool::new(false),
            sessions: Mutex::default(),
            held_calls: Arc::new(Semaphore::new(HELD_CALLS_MAX)),
        });
        tokio::spawn(Arc::clone(&connection).read(reader, around));
        connection
    }

    /// Connects to `to`, as a client of a server that calls back: `programs` are served on the connection.
    ///
    /// # Errors
    /// The network's error of the connect.
    pub async fn dial(
        network: &dyn StreamNetwork,
        to: SocketAddr,
        programs: Programs,
    ) -> std::io::Result<Arc<Self>> {
        let around = Surroundings::new(Limits::default(), programs, BufferPool::default(), Arc::default());
        Ok(Self::start(network.connect(to).await?, around))
    }

    /// Id of the connection.
    #[must_use]
    pub fn id(&self) -> ConnectionId {
        self.id
    }

    /// Address of the other side.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Local address.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Associates the connection with a session's fore channel: by BIND_CONN_TO_SESSION, by CREATE_SESSION,
    /// or by a request of the session, since there is no state protection (RFC 8881, section 2.10.3.1).
    pub fn associate(&self, session: SessionId) {
        let mut sessions = self.sessions.lock();
        if sessions.last() == Some(&session) {
            return; // nearly always
        }
        sessions.retain(|other| *other != session);
        if sessions.len() >= SESSIONS_MAX {
            sessions.remove(0);
        }
        sessions.push(session);
    }

    /// True if the connection is associated with this session.
    #[must_use]
    pub fn is_associated(&self, session: SessionId) -> bool {
        self.sessions.lock().contains(&session)
    }

    /// Marks the other side as a server of this cluster: it has proven that, or this server connected to it.
    pub(crate) fn set_member(&self) {
        self.standing.set_member();
    }

    /// True if the other side is a server of this cluster.
    #[must_use]
    pub fn is_member(&self) -> bool {
        self.standing.is_member()
    }

    /// True if the other side is a server of this cluster or has used a session.
    pub(crate) fn is_known(&self) -> bool {
        self.is_member() || !self.sessions.lock().is_empty()
    }

    /// True if the program trusts the caller with a long record. `beginning`: first bytes of the record.
    fn trusts(&self, beginning: &Bytes, programs: &Programs) -> bool {
        let mut arguments = Decoder::new(beginning.clone());
        self.is_member()
            || CallHeader::decode(&mut arguments).is_ok_and(|header| {
                let program = programs.find(&header);
                program.is_ok_and(|program| program.trusts(&header, arguments, self))
            })
    }

    /// True if the connection is open for calls.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.pending.lock().calls.is_some()
    }

    /// Places for calls without a session that wait for another server.
    #[must_use]
    pub fn held_calls(&self) -> &Arc<Semaphore> {
        &self.held_calls
    }

    /// Closes the connection; calls that wait for replies fail.
    pub fn close(&self) {
        self.pending.lock().calls = None;
        self.replies.closing.close();
        self.closed.notify_one();
    }

    /// Closes the connection with RST: the local address has moved to another machine, so an orderly close
    /// would get no acknowledgement. If the address comes back, no old connection is left to meet a new one.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
        self.close();
    }

    /// Time since when the connection is idle; none while a call is in flight.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let activity = *self.activity.lock();
        (activity.calls == 0).then_some(activity.last)
    }

    fn works(&self, change: isize) {
        let mut activity = self.activity.lock();
        activity.calls = activity.calls.saturating_add_signed(change);
        activity.last = Instant::now();
    }

    async fn read(self: Arc<Self>, stream: StreamReader, around: Surroundings) {
        let standing = self.standing.clone();
        let gate = Gate::new(&around.limits, &around.budgets, self.peer.ip(), standing);
        let mut reader = RecordReader::new(stream, around.pool.clone(), around.limits.clone());
        loop {
            let record = tokio::select! {
                biased;
                () = self.closed.notified() => break,
                record = reader.next(&gate, |beginning| self.trusts(beginning, &around.programs)) => record,
            };
            match record {
                Ok(Some(record)) => self.take(record, &around).await,
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(peer = %self.peer, %error, "connection ended");
                    break;
                }
            }
        }
        self.close();
        let mut writer = self.writer.lock().await;
        // The last reply must still arrive, if the client is there.
        let forgets = self.abandoned.load(Ordering::Relaxed);
        writer.set_forgets(forgets);
        if !forgets {
            let _ = writer.shutdown().await;
        }
        self.ended.close();
    }

    /// Waits until the connection is no longer read.
    pub async fn ended(&self) {
        // No permit is ever added: the wait ends when the semaphore is closed.
        let _ = self.ended.acquire().await;
    }

    /// Handles one record, a reply or a call. A call that does not finish at once gets a task of its own.
    async fn take(self: &Arc<Self>, record: Record, around: &Surroundings) {
        let Record { bytes: record, cut, admission } = record;
        if record.len() >= 8 && record[4..8] != MESSAGE_CALL.to_be_bytes() {
            return self.take_reply(record);
        }
        around.metrics.received(record.len());
        let mut arguments = Decoder::new(record);
        let header = match CallHeader::decode(&mut arguments) {
            Ok(header) => header,
            Err(CallError::Malformed(_)) => return self.close(),
            Err(CallError::RpcVersion { xid, .. }) => {
                return self.send(reply(xid, Err(Rejection::RpcMismatch)), &around.metrics).await;
            }
            Err(CallError::Auth { xid, stat }) => {
                return self.send(reply(xid, Err(Rejection::Auth(stat))), &around.metrics).await;
            }
        };
        let xid = header.xid;
        match around.programs.find(&header) {
            Err(rejection) => self.send(reply(xid, Err(rejection)), &around.metrics).await,
            Ok(program) => {
                let connection = Arc::clone(self);
                let metrics = Arc::clone(&around.metrics);
                let room = ReplyRoom::new(&self.replies);
                let call = Call { header, arguments, connection: Arc::clone(self), room: room.clone(), cut };
                self.works(1);
                let mut work = Box::pin(async move {
                    let in_flight = metrics.call_begins();
                    let outcome = Arc::clone(&program).call(call).await;
                    match program.is_out_of_service() {
                        true => connection.close(),
                        false => {
                            connection.send(reply(xid, outcome.as_ref().map_err(|r| *r)), &metrics).await
                        }
                    }
                    connection.works(-1);
                    // Drop the payload before its reply budget.
                    drop(outcome);
                    drop(room);
                    drop(in_flight);
                    drop(admission);
                });
                // First poll here: a call without I/O finishes without waking a second thread.
                if !poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx).is_ready())).await {
                    tokio::spawn(work);
                }
            }
        }
    }

    fn take_reply(&self, record: Bytes) {
        let mut d = Decoder::new(record);
        let Ok(header) = ReplyHeader::decode(&mut d) else { return self.close() };
        // No waiting call: the reply came after its timeout.
        if let Some(waiting) = self.pending.lock().calls.as_mut().and_then(|calls| calls.remove(&header.xid))
        {
            let _ = waiting.send((header, d));
        }
    }

    async fn send(&self, message: Message, metrics: &Metrics) {
        metrics.sent(message.len);
        if self.write(message).await.is_err() {
            self.close();
        }
    }

    /// Writes one whole record. Writers take turns by the lock.
    async fn write(&self, message: Message) -> std::io::Result<()> {
        let mut segments = Segments { segments: frame(message), first: 0 };
        let mut writer = self.writer.lock().await;
        // After a partial record the stream is unusable: close the connection, also when this future is
        // dropped.
        let unfinished = CloseOnDrop(Some(self));
        if !self.is_open() {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        }
        let (limits, tick) = (&self.limits, tick(&self.limits));
        let (began, mut moved) = (Instant::now(), Instant::now());
        while segments.has_remaining() {
            tokio::select! {
                biased;
                piece = writer.write_buf(&mut segments) => {
                    piece?;
                    moved = Instant::now();
                }
                () = tokio::time::sleep(tick) => {}
                _ = self.replies.closing.acquire() => return Err(std::io::ErrorKind::BrokenPipe.into()),
            }
            // `reply_time_max` applies to each piece: a slow client is not a stuck one. `pressed_time_max`
            // applies to the record, while others wait for its budget.
            let pressed = limits.pressed_time_max;
            if is_too_late(moved, limits.reply_time_max, limits.reply_time_max, || false)
                || is_too_late(began, Duration::MAX, pressed, || self.replies.is_pressed())
            {
                // The kernel must also drop its unsent data at once: for a client that reads nothing it would
                // keep them for a quarter of an hour.
                writer.set_forgets(true);
                return Err(std::io::ErrorKind::TimedOut.into());
            }
        }
        unfinished.defuse();
        Ok(())
    }

    /// Calls the other side and waits for the results. Returns the decoder at the results.
    ///
    /// # Errors
    /// [`CallFailure`]; after `Closed` and `TimedOut` it is unknown whether the call was executed.
    pub async fn call(
        &self,
        (program, version, procedure): (u32, u32, u32),
        credential: Credential,
        arguments: &(dyn Encode + Sync),
        limit: Duration,
    ) -> Result<Decoder, CallFailure> {
        let xid = self.next_xid.fetch_add(1, Ordering::Relaxed);
        let mut e = Encoder::new();
        CallHeader { xid, program, version, procedure, credential }.encode(&mut e);
        arguments.encode(&mut e);
        let answer = self.expect(xid)?;
        let waiting = Waiting { connection: self, xid };
        let exchange = async {
            self.write(e.finish()).await.map_err(|_| CallFailure::Closed)?;
            answer.await.map_err(|_| CallFailure::Closed)
        };
        let outcome = tokio::time::timeout(limit, exchange).await;
        drop(waiting);
        let (header, results) = outcome.map_err(|_| CallFailure::TimedOut(limit))??;
        header.outcome.map_err(CallFailure::Rejected)?;
        Ok(results)
    }

    fn expect(&self, xid: u32) -> Result<oneshot::Receiver<(ReplyHeader, Decoder)>, CallFailure> {
        let (tx, rx) = oneshot::channel();
        self.pending.lock().calls.as_mut().ok_or(CallFailure::Closed)?.insert(xid, tx);
        Ok(rx)
    }
}
