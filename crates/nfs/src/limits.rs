//! What one client, and all of them together, may keep in flight. A limit reached is back pressure: the connection is
//! not read until something is answered.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Semaphores count in these, for they count in 32 bits.
const PERMIT_BYTES: usize = 1024;

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
    /// Connections at one time; further ones wait in the kernel's accept queue.
    pub connections_max: usize,
    /// A record that has begun must end within this time, so that half a record does not hold its share forever.
    pub record_time_max: Duration,
    /// A client that does not take its replies for this long is given up.
    pub reply_time_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            record_bytes_max: (1 << 20) + (64 << 10),
            connection_calls_max: 128,
            connection_bytes_max: 64 << 20,
            server_bytes_max: 512 << 20,
            connections_max: 16_384,
            record_time_max: Duration::from_secs(60),
            reply_time_max: Duration::from_secs(60),
        }
    }
}

/// The counters behind [`Limits`] of one connection.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    calls: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    server_bytes: Arc<Semaphore>,
}

/// Held while a call is worked on, from before its body is read until its reply is written.
#[derive(Debug)]
pub(crate) struct Admission {
    _permits: [OwnedSemaphorePermit; 3],
}

fn permits(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX)
}

/// The counter that all connections of a server share.
pub(crate) fn server_bytes(limits: &Limits) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(permits(limits.server_bytes_max) as usize))
}

impl Gate {
    pub(crate) fn new(limits: &Limits, server_bytes: Arc<Semaphore>) -> Self {
        Self {
            calls: Arc::new(Semaphore::new(limits.connection_calls_max)),
            bytes: Arc::new(Semaphore::new(permits(limits.connection_bytes_max) as usize)),
            server_bytes,
        }
    }

    /// Waits until a record of `len` bytes may be taken in. None: the server is stopping.
    pub(crate) async fn admit(&self, len: usize) -> Option<Admission> {
        let n = permits(len).max(1);
        Some(Admission {
            _permits: [
                Arc::clone(&self.calls).acquire_owned().await.ok()?,
                Arc::clone(&self.bytes).acquire_many_owned(n).await.ok()?,
                Arc::clone(&self.server_bytes).acquire_many_owned(n).await.ok()?,
            ],
        })
    }
}
