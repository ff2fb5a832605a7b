//! Limits on replies: of one connection, its address, and all.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Budget, Budgets, Kinds, Limits, PERMIT_BYTES, Standing, permits_of_buffer};
use crate::Metrics;

/// Limits ([`Limits`]) on the replies to one connection.
#[derive(Debug)]
pub(crate) struct ReplyGate {
    bytes: Arc<Budget>,
    pub(super) address: Arc<Kinds>,
    budgets: Budgets,
    standing: Standing,
    /// Closed with the connection, which ends all waits.
    pub closing: Semaphore,
    pub(super) metrics: Arc<Metrics>,
}

impl ReplyGate {
    pub(crate) fn new(
        limits: &Limits,
        budgets: &Budgets,
        address: IpAddr,
        standing: Standing,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        Arc::new(Self {
            bytes: Budget::new(limits.connection_reply_bytes_max),
            address: budgets.share(address),
            budgets: budgets.clone(),
            standing,
            closing: Semaphore::new(0),
            metrics,
        })
    }

    /// Budgets of a payload, in the order in which they are taken.
    fn budgets(&self) -> Vec<&Arc<Budget>> {
        match self.standing.is_member() {
            true => vec![&self.bytes, &self.budgets.members.replies],
            false => vec![&self.bytes, &self.address.replies, &self.budgets.clients.replies],
        }
    }

    /// True if another call waits for room that a reply to this connection holds.
    pub(crate) fn is_pressed(&self) -> bool {
        self.budgets().iter().skip(1).any(|budget| budget.is_pressed())
    }
}

/// No room for the payload of a reply: the client must retry (DELAY).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no room for the payload of a reply")]
pub struct NoRoom;

/// Reply budget of one call: taken before the data are read, held until the reply is written.
#[derive(Debug, Clone)]
pub struct ReplyRoom(Arc<Room>);

#[derive(Debug)]
struct Room {
    gate: Arc<ReplyGate>,
    held: Mutex<Vec<OwnedSemaphorePermit>>,
    /// Bytes of `held`, for the metrics.
    bytes: AtomicUsize,
}

impl ReplyRoom {
    pub(crate) fn new(gate: &Arc<ReplyGate>) -> Self {
        let (gate, held) = (Arc::clone(gate), Mutex::default());
        Self(Arc::new(Room { gate, held, bytes: AtomicUsize::new(0) }))
    }

    /// Waits for room for `bytes` of payload. The second time in one call it does not wait, to avoid deadlock
    /// of two calls.
    ///
    /// # Errors
    /// [`NoRoom`] the second time, or when the connection has ended.
    pub async fn take(&self, bytes: usize) -> Result<(), NoRoom> {
        if bytes == 0 {
            return Ok(());
        }
        let (gate, n) = (&self.0.gate, permits_of_buffer(bytes));
        let first = self.0.held.lock().is_empty();
        let mut taken = Vec::new();
        let all = async {
            for budget in gate.budgets() {
                taken.push(if first { budget.take(n).await? } else { budget.try_take(n)? });
            }
            Some(())
        };
        let outcome = tokio::select! {
            biased;
            outcome = all => outcome,
            _ = gate.closing.acquire() => None,
        };
        outcome.ok_or(NoRoom)?;
        let bytes = n as usize * PERMIT_BYTES;
        gate.metrics.reply_room.inc_by(bytes as i64);
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.0.held.lock().extend(taken);
        Ok(())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.gate.metrics.reply_room.dec_by(*self.bytes.get_mut() as i64);
    }
}
