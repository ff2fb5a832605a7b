//! Memory limits of one client and of all clients together. At a limit there is back pressure: the server
//! does not read the connection, or the data from disk, until a call is answered.
//!
//! ```text
//! record up to 16 KiB ──▶ read ──▶ room for small calls ───────────▶ call ──▶ room for its reply ──▶ READ, …
//! longer: its beginning ──▶ does its program trust the caller?
//!                             yes ──▶ room for the rest ──▶ read whole ──▶ call
//!                             no  ──▶ read and drop the rest ──────▶ call, cut: it can only be refused
//! ```
//!
//! **Half records hold no shared memory.** A record takes room only when its first [`SMALL_BYTES`] have
//! arrived: until then it is in the connection's own read-ahead. A longer record takes room only when its
//! program trusts the caller ([`crate::Program::trusts`]): by an existing session, an address with an export,
//! or a proof. So an unknown client has no more than the read-ahead of its connections.
//!
//! **Shares.** One address (in IPv6 one network of 64 bits) has at most a quarter of each budget, so that a
//! client that sends half records, or does not read, delays only itself. Servers of this cluster, once
//! proven, have budgets of their own: clients cannot delay consensus and data.
//!
//! **No deadlock.** A call takes the budgets in this order, and of each the connection's share, then the
//! address's, then the server's. A holder of reply budget waits only for its client; a compound that holds
//! some and needs more gets it at once or not at all. A request that is larger than the budget takes the
//! whole budget.
//!
//! **No starvation.** While a call waits for a budget, records must arrive and replies must be taken within
//! [`Limits::pressed_time_max`], or their connections end. So memory held by clients that do not read, or
//! that send half a record, is free again soon, however many they are.

mod replies;

use std::collections::HashMap;
use std::future::Future;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use host::BufferPool;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

pub(crate) use replies::ReplyGate;
pub use replies::{NoRoom, ReplyRoom};

/// Longest record that is taken from any caller: every call but a large WRITE is shorter. Such a record is in
/// the read-ahead of its connection.
pub(crate) const SMALL_BYTES: usize = 16 * 1024;
/// Calls of one session, or of one connection without sessions, that may wait for another server at a time: 16
/// MiB of payload, and a quarter of the slots of a Linux client.
pub const HELD_CALLS_MAX: usize = 16;
/// Number of shares in a budget: one address has at most one share. Four addresses that hold a share each
/// would need a cluster of hostile clients, and a quarter is enough for many clients behind one address.
const ADDRESS_PARTS: usize = 4;
/// Bytes of one semaphore permit; a semaphore counts permits in 32 bits.
const PERMIT_BYTES: usize = 1024;
/// Poll interval of the memory-pressure check.
const TICK: Duration = Duration::from_secs(1);

/// Limits of a server's connections, with the reasons.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Longest record: one megabyte of payload, and room for the compound around it. A longer one ends the
    /// connection: an RPC error reply would need the whole record first.
    pub record_bytes_max: usize,
    /// Calls in flight of one connection. A Linux client has at most 64 slots in a session.
    pub connection_calls_max: usize,
    /// Bytes of the calls in flight of one connection.
    pub connection_bytes_max: usize,
    /// Bytes of the calls in flight of more than 16 KiB, of all clients.
    pub server_bytes_max: usize,
    /// Bytes of the shorter calls in flight, of all clients: 65,536 of up to 1 KiB.
    pub small_bytes_max: usize,
    /// Bytes of the calls in flight of servers of this cluster, of any length; the same again for the
    /// payloads of replies to them. They have few connections, and bound the calls in flight on each
    /// themselves.
    pub members_bytes_max: usize,
    /// Payload bytes of the replies to one connection: enough to fill its socket while more data are read.
    pub connection_reply_bytes_max: usize,
    /// Payload bytes of the replies to all clients' connections.
    pub server_reply_bytes_max: usize,
    /// Open connections. A further one replaces an idle one, or waits in the kernel's accept queue.
    pub connections_max: usize,
    /// Time limit of a record from its first byte to its last, so that half a record does not hold its share
    /// for ever.
    pub record_time_max: Duration,
    /// Time limit for a client to take any byte of its replies; after that the connection ends.
    pub reply_time_max: Duration,
    /// Time limit of a whole record or reply while other calls wait for its budget: 100 KiB/s for 1 MiB.
    pub pressed_time_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            record_bytes_max: (1 << 20) + (64 << 10),
            connection_calls_max: 128,
            connection_bytes_max: 64 << 20,
            server_bytes_max: 384 << 20,
            small_bytes_max: 64 << 20,
            members_bytes_max: 128 << 20,
            connection_reply_bytes_max: 32 << 20,
            server_reply_bytes_max: 384 << 20,
            connections_max: 16_384,
            record_time_max: Duration::from_secs(60),
            reply_time_max: Duration::from_secs(60),
            pressed_time_max: Duration::from_secs(10),
        }
    }
}

/// Memory budget in bytes that all connections of a server share.
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

    /// Waits in turn for `permits`. None: the server is stopping.
    async fn take(&self, permits: u32) -> Option<OwnedSemaphorePermit> {
        if let Some(taken) = self.try_take(permits) {
            return Some(taken);
        }
        let _waiting = CountedIn::new(&self.waiting);
        Arc::clone(&self.bytes).acquire_many_owned(permits.min(self.permits)).await.ok()
    }

    /// True if a call waits for this budget.
    pub(crate) fn is_pressed(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

/// Guard that counts one waiter until it is dropped.
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
    clients: Kinds,
    members: Kinds,
    addresses: Arc<Mutex<Addresses>>,
}

/// A budget for each kind of use.
#[derive(Debug, Clone)]
struct Kinds {
    small: Arc<Budget>,
    large: Arc<Budget>,
    replies: Arc<Budget>,
}

/// Shares of the addresses that have a connection.
#[derive(Debug)]
struct Addresses {
    limits: Limits,
    shares: HashMap<IpAddr, Weak<Kinds>>,
    /// Number of entries at which entries without a connection are removed.
    sweep_at: usize,
}

impl Budgets {
    pub(crate) fn new(limits: &Limits) -> Self {
        let members = Budget::new(limits.members_bytes_max);
        Self {
            clients: Kinds {
                small: Budget::new(limits.small_bytes_max),
                large: Budget::new(limits.server_bytes_max),
                replies: Budget::new(limits.server_reply_bytes_max),
            },
            members: Kinds {
                small: Arc::clone(&members),
                large: members,
                replies: Budget::new(limits.members_bytes_max),
            },
            addresses: Arc::new(Mutex::new(Addresses {
                limits: limits.clone(),
                shares: HashMap::new(),
                sweep_at: 64,
            })),
        }
    }

    /// Share of all connections from one address.
    fn share(&self, address: IpAddr) -> Arc<Kinds> {
        let mut addresses = self.addresses.lock();
        let network = network_of(address);
        if let Some(share) = addresses.shares.get(&network).and_then(Weak::upgrade) {
            return share;
        }
        if addresses.shares.len() >= addresses.sweep_at {
            addresses.shares.retain(|_, share| share.strong_count() > 0);
            addresses.sweep_at = 2 * addresses.shares.len().max(64);
        }
        let limits = &addresses.limits;
        let share = Arc::new(Kinds {
            small: Budget::new(limits.small_bytes_max / ADDRESS_PARTS),
            large: Budget::new(limits.server_bytes_max / ADDRESS_PARTS),
            replies: Budget::new(limits.server_reply_bytes_max / ADDRESS_PARTS),
        });
        addresses.shares.insert(network, Arc::downgrade(&share));
        share
    }
}

/// Address for the purpose of shares: in IPv6 the network of 64 bits, since one machine can use all of it.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

fn permits(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX)
}

/// Permits of a pooled buffer for `len` bytes.
fn permits_of_buffer(len: usize) -> u32 {
    permits(BufferPool::bytes_taken(len)).max(1)
}

/// Flag of a connection: its other side is a proven server of this cluster.
#[derive(Debug, Clone, Default)]
pub(crate) struct Standing(Arc<AtomicBool>);

impl Standing {
    pub(crate) fn set_member(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_member(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Length class of a record, which selects its budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// At most [`SMALL_BYTES`], all arrived.
    Small(usize),
    /// More than [`SMALL_BYTES`], not all arrived.
    Large(usize),
}

/// Limits ([`Limits`]) on the requests of one connection.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    calls: Arc<Semaphore>,
    bytes: Arc<Budget>,
    address: Arc<Kinds>,
    budgets: Budgets,
    standing: Standing,
}

/// Room of one call, held from before its body is read until its reply is written.
#[derive(Debug)]
pub(crate) struct Admission {
    _permits: [Option<OwnedSemaphorePermit>; 4],
}

impl Gate {
    pub(crate) fn new(limits: &Limits, budgets: &Budgets, address: IpAddr, standing: Standing) -> Self {
        Self {
            calls: Arc::new(Semaphore::new(limits.connection_calls_max)),
            bytes: Budget::new(limits.connection_bytes_max),
            address: budgets.share(address),
            budgets: budgets.clone(),
            standing,
        }
    }

    /// Waits for room for a record. None: the server is stopping.
    pub(crate) async fn admit(&self, length: Length) -> Option<Admission> {
        let (len, of): (usize, fn(&Kinds) -> &Arc<Budget>) = match length {
            Length::Small(len) => (len, |kinds| &kinds.small),
            Length::Large(len) => (len, |kinds| &kinds.large),
        };
        let n = permits_of_buffer(len);
        let call = Arc::clone(&self.calls).acquire_owned().await.ok()?;
        let connection = self.bytes.take(n).await?;
        let (address, server) = if self.standing.is_member() {
            (None, of(&self.budgets.members).take(n).await?)
        } else {
            (Some(of(&self.address).take(n).await?), of(&self.budgets.clients).take(n).await?)
        };
        Some(Admission { _permits: [Some(call), Some(connection), address, Some(server)] })
    }

    /// True if another call waits for room that a record of this connection holds.
    pub(crate) fn is_pressed(&self) -> bool {
        if self.standing.is_member() {
            return self.budgets.members.large.is_pressed();
        }
        self.address.large.is_pressed() || self.budgets.clients.large.is_pressed()
    }
}

/// Runs `work` with a time limit: `limit`, or `pressed` while `is_pressed`. None: timeout.
pub(crate) async fn in_time<T>(
    limit: Duration,
    pressed: Duration,
    is_pressed: impl Fn() -> bool,
    work: impl Future<Output = T>,
) -> Option<T> {
    let began = Instant::now();
    tokio::pin!(work);
    loop {
        if let Ok(done) = tokio::time::timeout(TICK.min(limit).min(pressed), &mut work).await {
            return Some(done);
        }
        if is_too_late(began, limit, pressed, &is_pressed) {
            return None;
        }
    }
}

pub(crate) fn is_too_late(
    began: Instant,
    limit: Duration,
    pressed: Duration,
    is_pressed: impl Fn() -> bool,
) -> bool {
    let waited = began.elapsed();
    waited >= limit || (waited >= pressed && is_pressed())
}

/// Interval of the writer's check of [`is_too_late`].
pub(crate) fn tick(limits: &Limits) -> Duration {
    TICK.min(limits.reply_time_max).min(limits.pressed_time_max)
}

#[cfg(test)]
#[path = "limits/tests.rs"]
mod tests;
