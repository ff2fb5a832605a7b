//! What one client, and all of them together, may keep in memory. A limit reached is back pressure: the connection is
//! not read, or the data are not read from disk, until something is answered.
//!
//! ```text
//! record ──▶ request budget ──▶ call ──▶ reply budget ──▶ READ, READDIR, … ──▶ reply written ──▶ both given back
//!            before its body is read     before data are read
//! ```
//!
//! **No deadlock.** Each budget is taken in this order, and of each the connection's share before the server's. Whoever
//! holds some of the reply budget waits for nothing but its client; a compound that holds some and wants more gets it at
//! once or not at all. One that is larger than the whole budget takes the whole.
//!
//! **No starvation.** While somebody waits for a budget, records must come and replies must be taken within
//! [`Limits::pressed_time_max`], or their connection ends. So what clients hold that do not read, or that send half a
//! record, comes back soon, whatever their number.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use host::BufferPool;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::Metrics;

/// Semaphores count in these, for they count in 32 bits.
const PERMIT_BYTES: usize = 1024;
/// How often somebody who is waited for looks whether he is pressed.
const TICK: Duration = Duration::from_secs(1);

/// Bounds, with the reasons.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The longest record: one megabyte of payload, and room for the compound around it. A longer one ends the
    /// connection, for RPC has no answer that would not have to be read first.
    pub record_bytes_max: usize,
    /// Calls of one connection being worked on. A Linux client has at most 64 slots in a session.
    pub connection_calls_max: usize,
    /// Bytes of the calls of one connection being worked on.
    pub connection_bytes_max: usize,
    /// Bytes of the calls of all connections being worked on.
    pub server_bytes_max: usize,
    /// Payload bytes of the replies to one connection: enough to keep its socket full while more are read.
    pub connection_reply_bytes_max: usize,
    /// Payload bytes of the replies to all connections.
    pub server_reply_bytes_max: usize,
    /// Connections at one time; a further one takes the place of one that is idle, or waits in the kernel's queue.
    pub connections_max: usize,
    /// A record that has begun must end within this time, so that half a record does not hold its share forever.
    pub record_time_max: Duration,
    /// A client that does not take its replies for this long is given up.
    pub reply_time_max: Duration,
    /// The same for a whole record or reply while others wait for what it holds: 1 MiB in this time is 100 KiB/s.
    pub pressed_time_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            record_bytes_max: (1 << 20) + (64 << 10),
            connection_calls_max: 128,
            connection_bytes_max: 64 << 20,
            server_bytes_max: 512 << 20,
            connection_reply_bytes_max: 32 << 20,
            server_reply_bytes_max: 512 << 20,
            connections_max: 16_384,
            record_time_max: Duration::from_secs(60),
            reply_time_max: Duration::from_secs(60),
            pressed_time_max: Duration::from_secs(10),
        }
    }
}

/// A number of bytes of memory that all connections of a server share.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes: Arc<Semaphore>,
    permits: u32,
    waiting: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        let permits = permits(bytes);
        let bytes = Arc::new(Semaphore::new(permits as usize));
        Arc::new(Self { bytes, permits, waiting: AtomicUsize::new(0) })
    }

    fn try_take(&self, permits: u32) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.bytes).try_acquire_many_owned(permits.min(self.permits)).ok()
    }

    /// Waits for its turn. None: the server is stopping.
    async fn take(&self, permits: u32) -> Option<OwnedSemaphorePermit> {
        if let Some(taken) = self.try_take(permits) {
            return Some(taken);
        }
        let _waiting = CountedIn::new(&self.waiting);
        Arc::clone(&self.bytes).acquire_many_owned(permits.min(self.permits)).await.ok()
    }

    /// Whether somebody waits.
    pub(crate) fn is_pressed(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

/// Counted until it is dropped.
struct CountedIn<'a>(&'a AtomicUsize);

impl<'a> CountedIn<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for CountedIn<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The budgets of one server.
#[derive(Debug, Clone)]
pub(crate) struct Budgets {
    pub requests: Arc<Budget>,
    pub replies: Arc<Budget>,
}

impl Budgets {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            requests: Budget::new(limits.server_bytes_max),
            replies: Budget::new(limits.server_reply_bytes_max),
        }
    }
}

fn permits(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX)
}

/// What a buffer for `len` bytes takes.
fn permits_of_buffer(len: usize) -> u32 {
    permits(BufferPool::bytes_taken(len)).max(1)
}

/// The counters behind [`Limits`] of the requests of one connection.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    calls: Arc<Semaphore>,
    bytes: Arc<Budget>,
    pub server: Arc<Budget>,
}

/// Held while a call is worked on, from before its body is read until its reply is written.
#[derive(Debug)]
pub(crate) struct Admission {
    _permits: [OwnedSemaphorePermit; 3],
}

impl Gate {
    pub(crate) fn new(limits: &Limits, budgets: &Budgets) -> Self {
        Self {
            calls: Arc::new(Semaphore::new(limits.connection_calls_max)),
            bytes: Budget::new(limits.connection_bytes_max),
            server: Arc::clone(&budgets.requests),
        }
    }

    /// Waits until a record of `len` bytes may be taken in. None: the server is stopping.
    pub(crate) async fn admit(&self, len: usize) -> Option<Admission> {
        let n = permits_of_buffer(len);
        Some(Admission {
            _permits: [
                Arc::clone(&self.calls).acquire_owned().await.ok()?,
                self.bytes.take(n).await?,
                self.server.take(n).await?,
            ],
        })
    }
}

/// The counters behind [`Limits`] of the replies to one connection.
#[derive(Debug)]
pub(crate) struct ReplyGate {
    bytes: Arc<Budget>,
    pub server: Arc<Budget>,
    /// Closed with the connection.
    pub closing: Semaphore,
    metrics: Arc<Metrics>,
}

impl ReplyGate {
    pub(crate) fn new(limits: &Limits, budgets: &Budgets, metrics: Arc<Metrics>) -> Arc<Self> {
        let bytes = Budget::new(limits.connection_reply_bytes_max);
        let (server, closing) = (Arc::clone(&budgets.replies), Semaphore::new(0));
        Arc::new(Self { bytes, server, closing, metrics })
    }
}

/// There is no room for a payload: it must be asked for again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no room for the payload of a reply")]
pub struct NoRoom;

/// Room for the payloads of one call's reply: taken before the data are read, held until the reply was written.
#[derive(Debug, Clone)]
pub struct ReplyRoom(Arc<Room>);

#[derive(Debug)]
struct Room {
    gate: Arc<ReplyGate>,
    held: Mutex<Vec<OwnedSemaphorePermit>>,
}

impl ReplyRoom {
    pub(crate) fn new(gate: &Arc<ReplyGate>) -> Self {
        Self(Arc::new(Room { gate: Arc::clone(gate), held: Mutex::default() }))
    }

    /// Waits until there is room for `bytes` of payload. The second time in one call it does not wait: two calls that
    /// hold what the other wants would wait for ever.
    ///
    /// # Errors
    /// [`NoRoom`] the second time, or when the connection has ended.
    pub async fn take(&self, bytes: usize) -> Result<(), NoRoom> {
        if bytes == 0 {
            return Ok(());
        }
        let (gate, n) = (&self.0.gate, permits_of_buffer(bytes));
        let first = self.0.held.lock().map_err(|_| NoRoom)?.is_empty();
        let taken = if first {
            let both = async { Some([gate.bytes.take(n).await?, gate.server.take(n).await?]) };
            tokio::select! {
                taken = both => taken,
                _ = gate.closing.acquire() => None,
            }
        } else {
            gate.bytes.try_take(n).and_then(|share| Some([share, gate.server.try_take(n)?]))
        };
        let taken = taken.ok_or(NoRoom)?;
        gate.metrics.reply_room.inc_by(held_bytes(&taken[1]));
        self.0.held.lock().map_err(|_| NoRoom)?.extend(taken);
        Ok(())
    }
}

fn held_bytes(permit: &OwnedSemaphorePermit) -> i64 {
    (permit.num_permits() * PERMIT_BYTES) as i64
}

impl Drop for Room {
    fn drop(&mut self) {
        let Ok(held) = self.held.get_mut() else { return };
        // Pairs of the connection's share and the server's.
        let bytes = held.iter().skip(1).step_by(2).map(held_bytes).sum();
        self.gate.metrics.reply_room.dec_by(bytes);
    }
}

/// Waits for the other side: for `limit`, and for `pressed` only while somebody else waits for `budget`. None: too long.
pub(crate) async fn in_time<T>(
    limit: Duration,
    pressed: Duration,
    budget: &Budget,
    work: impl Future<Output = T>,
) -> Option<T> {
    let began = Instant::now();
    tokio::pin!(work);
    loop {
        if let Ok(done) = tokio::time::timeout(TICK.min(limit).min(pressed), &mut work).await {
            return Some(done);
        }
        if is_too_late(began, limit, pressed, budget) {
            return None;
        }
    }
}

pub(crate) fn is_too_late(began: Instant, limit: Duration, pressed: Duration, budget: &Budget) -> bool {
    let waited = began.elapsed();
    waited >= limit || (waited >= pressed && budget.is_pressed())
}

/// How often a writer looks up: see [`is_too_late`].
pub(crate) fn tick(limits: &Limits) -> Duration {
    TICK.min(limits.reply_time_max).min(limits.pressed_time_max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(connection: usize, server: usize) -> Arc<ReplyGate> {
        let limits = Limits {
            connection_reply_bytes_max: connection,
            server_reply_bytes_max: server,
            ..Limits::default()
        };
        ReplyGate::new(&limits, &Budgets::new(&limits), Arc::default())
    }

    #[tokio::test]
    async fn one_payload_larger_than_the_whole_budget_goes_when_it_is_alone() {
        let gate = gate(10_000, 10_000);
        let (large, small) = (ReplyRoom::new(&gate), ReplyRoom::new(&gate));
        large.take(1 << 20).await.unwrap();
        let waiting = tokio::spawn(async move { small.take(1).await });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(large);
        assert_eq!(waiting.await.unwrap(), Ok(()));
        assert_eq!(gate.metrics.reply_room.get(), 0);
    }

    #[tokio::test]
    async fn a_second_payload_of_a_call_is_taken_at_once_or_not_at_all() {
        let gate = gate(100_000, 100_000);
        let (a, b) = (ReplyRoom::new(&gate), ReplyRoom::new(&gate));
        a.take(50_000).await.unwrap();
        b.take(40_000).await.unwrap();
        // Both waiting for the other would be the end of both.
        assert_eq!(a.take(50_000).await, Err(NoRoom));
        assert_eq!(b.take(50_000).await, Err(NoRoom));
        drop(b);
        assert_eq!(a.take(40_000).await, Ok(()));
        drop(a);
        assert_eq!(gate.server.bytes.available_permits(), 98);
    }

    #[tokio::test]
    async fn who_waits_for_room_stops_when_the_connection_ends() {
        let gate = gate(1000, 1000);
        let (holder, waiting) = (ReplyRoom::new(&gate), ReplyRoom::new(&gate));
        holder.take(1000).await.unwrap();
        let waiting = tokio::spawn(async move { waiting.take(1000).await });
        tokio::task::yield_now().await;
        gate.closing.close();
        assert_eq!(waiting.await.unwrap(), Err(NoRoom));
        assert!(!gate.server.is_pressed());
    }
}
