//! One connection, whichever side opened it: calls come in and are answered as they finish, in any order;
//! calls go out and their replies are matched by xid.

use std::collections::HashMap;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use bytes::{Buf, Bytes};
use host::{BufferPool, Locked};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::time::Instant;
use wire::nfs4::SessionId;
use wire::rpc::{CallError, CallHeader, Credential, MESSAGE_CALL, Rejection, ReplyHeader, frame, reply};
use wire::xdr::{Decoder, Encode, Encoder, Message};

use crate::limits::{Budgets, Gate, ReplyGate, Standing, is_too_late, tick};
use crate::record::{Record, RecordReader};
use crate::{Call, Limits, Metrics, Programs, ReplyRoom};

/// Tells connections of one process apart; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(u64);

/// Sessions that one connection is remembered to have served: Linux has one for each. One that fell out is
/// associated again by its next request.
const SESSIONS_MAX: usize = 64;

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Why a call that we made has no results.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallFailure {
    /// The connection is gone. The call may or may not have been carried out.
    #[error("connection closed")]
    Closed,
    /// No answer in time. The call may or may not have been carried out.
    #[error("no answer in {0:?}")]
    TimedOut(Duration),
    /// The other side refused the call.
    #[error("call rejected: {0:?}")]
    Rejected(Rejection),
    /// The results are not what the program says.
    #[error("malformed reply")]
    Malformed,
    /// No connection could be made.
    #[error("connect: {0}")]
    Connect(String),
}

/// A connection. It lives as long as someone reads it; see [`Connection::start`].
pub struct Connection {
    id: ConnectionId,
    peer: SocketAddr,
    local: SocketAddr,
    writer: tokio::sync::Mutex<OwnedWriteHalf>,
    limits: Limits,
    standing: Standing,
    replies: Arc<ReplyGate>,
    /// Calls being worked on, and when the last began: an idle connection may have to make place for another.
    activity: Mutex<Activity>,
    pending: Mutex<Pending>,
    next_xid: AtomicU32,
    closed: Notify,
    ended: Semaphore,
    abandoned: AtomicBool,
    /// See [`Connection::associate`]; the last used stands last.
    sessions: Mutex<Vec<SessionId>>,
}

/// What a connection is doing.
#[derive(Debug, Clone, Copy)]
struct Activity {
    calls: usize,
    last: Instant,
}

#[derive(Default)]
struct Pending {
    /// None once the connection is closed: nothing waits then.
    calls: Option<HashMap<u32, oneshot::Sender<(ReplyHeader, Decoder)>>>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connection({}, {})", self.id.0, self.peer)
    }
}

/// What a connection needs of the server it belongs to.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub limits: Limits,
    pub programs: Programs,
    pub budgets: Budgets,
    pub pool: BufferPool,
    pub metrics: Arc<Metrics>,
}

impl Connection {
    /// Takes over `stream` and reads it in a task of its own, until the other side closes it or breaks the
    /// rules.
    pub(crate) fn start(stream: TcpStream, around: Surroundings) -> std::io::Result<Arc<Self>> {
        // Without it a client that does not set it itself waits 35 ms for each answer.
        stream.set_nodelay(true)?;
        // One that came to `[::]` by IPv4 has the addresses that it would have otherwise.
        let plain = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
        let (peer, local) = (plain(stream.peer_addr()?), plain(stream.local_addr()?));
        let (read, write) = stream.into_split();
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
            writer: tokio::sync::Mutex::new(write),
            replies,
            standing,
            limits: around.limits.clone(),
            activity: Mutex::new(Activity { calls: 0, last: Instant::now() }),
            pending: Mutex::new(Pending { calls: Some(HashMap::new()) }),
            next_xid: AtomicU32::new(1),
            closed: Notify::new(),
            ended: Semaphore::new(0),
            abandoned: AtomicBool::new(false),
            sessions: Mutex::default(),
        });
        tokio::spawn(Arc::clone(&connection).read(read, around));
        Ok(connection)
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> ConnectionId {
        self.id
    }

    /// The other side's address.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Our address.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// The connection is associated with a session's fore channel: by BIND_CONN_TO_SESSION, by
    /// CREATE_SESSION, or by a request of the session, for want of state protection (RFC 8881, section
    /// 2.10.3.1).
    pub fn associate(&self, session: SessionId) {
        let mut sessions = self.sessions.locked();
        if sessions.last() == Some(&session) {
            return; // nearly always
        }
        sessions.retain(|other| *other != session);
        if sessions.len() >= SESSIONS_MAX {
            sessions.remove(0);
        }
        sessions.push(session);
    }

    /// Whether the connection is associated with this session.
    #[must_use]
    pub fn is_associated(&self, session: SessionId) -> bool {
        self.sessions.locked().contains(&session)
    }

    /// The other side is a server of our own cluster: it has proved that, or we connected to it.
    pub(crate) fn set_member(&self) {
        self.standing.set_member();
    }

    /// Whether the other side has proved to be a server of our own cluster.
    #[must_use]
    pub fn is_member(&self) -> bool {
        self.standing.is_member()
    }

    /// Whether a call was carried out for the other side that not everybody is served.
    pub(crate) fn is_known(&self) -> bool {
        self.is_member() || !self.sessions.locked().is_empty()
    }

    /// Whether the program that a record calls trusts the caller with a long one. `beginning`: of the record.
    fn trusts(&self, beginning: &Bytes, programs: &Programs) -> bool {
        let mut arguments = Decoder::new(beginning.clone());
        self.is_member()
            || CallHeader::decode(&mut arguments).is_ok_and(|header| {
                let program = programs.find(&header);
                program.is_ok_and(|program| program.trusts(&header, arguments, self))
            })
    }

    /// Whether calls can still go out.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.pending.locked().calls.is_some()
    }

    /// Ends the connection; calls that wait for replies fail.
    pub fn close(&self) {
        self.pending.locked().calls = None;
        self.replies.closing.close();
        self.closed.notify_one();
    }

    /// Ends the connection, and has the kernel forget it: our address is another machine's now, and no answer
    /// to what the kernel would send to end it properly can come. If it comes back, nothing is left that a
    /// new connection could meet.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
        self.close();
    }

    /// Since when nothing has been asked over this connection; none while a call is worked on.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let activity = *self.activity.locked();
        (activity.calls == 0).then_some(activity.last)
    }

    fn works(&self, change: isize) {
        let mut activity = self.activity.locked();
        activity.calls = activity.calls.saturating_add_signed(change);
        activity.last = Instant::now();
    }

    async fn read(self: Arc<Self>, stream: OwnedReadHalf, around: Surroundings) {
        let standing = self.standing.clone();
        let gate = Gate::new(&around.limits, &around.budgets, self.peer.ip(), standing);
        let mut reader = RecordReader::new(stream, around.pool.clone(), around.limits.clone());
        loop {
            let record = tokio::select! {
                record = reader.next(&gate, |beginning| self.trusts(beginning, &around.programs)) => record,
                () = self.closed.notified() => break,
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
        if self.abandoned.load(Ordering::Relaxed) {
            let _ = rustix::net::sockopt::set_socket_linger(writer.as_ref(), Some(Duration::ZERO));
        } else {
            // What was answered last is still to arrive.
            let _ = rustix::net::sockopt::set_socket_linger(writer.as_ref(), None);
            let _ = writer.shutdown().await;
        }
        self.ended.close();
    }

    /// Returns when the connection is no longer read.
    pub async fn ended(&self) {
        // Nothing is ever added: waiting ends only when the semaphore is closed.
        let _ = self.ended.acquire().await;
    }

    /// One record: a reply to us, or a call; one that has to wait gets a task of its own.
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
                    // The payload goes before the room that it had.
                    drop(outcome);
                    drop(room);
                    drop(in_flight);
                    drop(admission);
                });
                // A call that only looks something up ends here, without a second thread being woken for it.
                if !poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx).is_ready())).await {
                    tokio::spawn(work);
                }
            }
        }
    }

    fn take_reply(&self, record: Bytes) {
        let mut d = Decoder::new(record);
        let Ok(header) = ReplyHeader::decode(&mut d) else { return self.close() };
        // A reply that nobody waits for came after its time-out.
        if let Some(waiting) =
            self.pending.locked().calls.as_mut().and_then(|calls| calls.remove(&header.xid))
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

    /// Writes one record whole. Whoever holds the writer finishes its record first.
    async fn write(&self, message: Message) -> std::io::Result<()> {
        let mut segments = Segments { segments: frame(message), first: 0 };
        let mut writer = self.writer.lock().await;
        // A record written in part leaves nothing that can be read after it: also when this future is
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
            // The long limit is for each piece: a slow client is not a stuck one, unless it holds up others.
            let pressed = limits.pressed_time_max;
            if is_too_late(moved, limits.reply_time_max, limits.reply_time_max, || false)
                || is_too_late(began, Duration::MAX, pressed, || self.replies.is_pressed())
            {
                // What the kernel still has for a client that reads nothing goes too, not in a quarter of an
                // hour.
                let _ = rustix::net::sockopt::set_socket_linger(writer.as_ref(), Some(Duration::ZERO));
                return Err(std::io::ErrorKind::TimedOut.into());
            }
        }
        unfinished.defuse();
        Ok(())
    }

    /// Calls the other side and waits for the results; the decoder stands at them.
    ///
    /// # Errors
    /// [`CallFailure`]; after `Closed` and `TimedOut` nobody knows whether the call was carried out.
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
        self.pending.locked().calls.as_mut().ok_or(CallFailure::Closed)?.insert(xid, tx);
        Ok(rx)
    }
}

/// Closes the connection unless told not to.
struct CloseOnDrop<'a>(Option<&'a Connection>);

impl CloseOnDrop<'_> {
    fn defuse(mut self) {
        self.0 = None;
    }
}

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.0 {
            connection.close();
        }
    }
}

/// Forgets a call that is no longer waited for, also when its future is dropped.
struct Waiting<'a> {
    connection: &'a Connection,
    xid: u32,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(calls) = self.connection.pending.locked().calls.as_mut() {
            calls.remove(&self.xid);
        }
    }
}

/// A list of segments as one buffer for vectored writes.
struct Segments {
    segments: Vec<Bytes>,
    first: usize,
}

impl Buf for Segments {
    fn remaining(&self) -> usize {
        self.segments[self.first..].iter().map(Bytes::len).sum()
    }

    fn has_remaining(&self) -> bool {
        self.segments[self.first..].iter().any(|s| !s.is_empty())
    }

    fn chunk(&self) -> &[u8] {
        self.segments[self.first..].iter().find(|s| !s.is_empty()).map_or(&[], |s| s)
    }

    fn advance(&mut self, mut count: usize) {
        while count > 0 {
            let segment = &mut self.segments[self.first];
            let n = count.min(segment.len());
            segment.advance(n);
            count -= n;
            if segment.is_empty() {
                // Dropped at once, so that its buffer goes back to the pool.
                *segment = Bytes::new();
                self.first += 1;
            }
        }
    }

    fn chunks_vectored<'a>(&'a self, out: &mut [std::io::IoSlice<'a>]) -> usize {
        let mut n = 0;
        for segment in self.segments[self.first..].iter().filter(|s| !s.is_empty()) {
            if n == out.len() {
                break;
            }
            out[n] = std::io::IoSlice::new(segment);
            n += 1;
        }
        n
    }
}
