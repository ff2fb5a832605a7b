//! Server session: the session of this process for commands of no client session. Each command has a slot, so
//! that a command whose leader was lost is recognized when it is sent again. See `namespace::servers`.

use std::sync::Arc;

use namespace::MemberRequest;
use parking_lot::Mutex;
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};

/// Commands of this process in flight; more wait. NFSv3 clients, which have no sessions, can have as many
/// writes in flight.
const SLOTS_MAX: usize = 1024;

/// Slots of this process.
pub(crate) struct ServerSession {
    member: u64,
    /// Assigned by the group at the first use, and again when the group has dropped it.
    life: Mutex<Arc<OnceCell<u64>>>,
    permits: Semaphore,
    slots: Mutex<Slots>,
}

/// Free slots, with the sequence of their next command. The lowest are used first: the store has one reply
/// for each slot that was ever in use.
#[derive(Default)]
struct Slots {
    free: std::collections::BTreeMap<u32, u64>,
    made: u32,
}

/// Slot of one command.
pub(crate) struct Slot<'a> {
    session: &'a ServerSession,
    number: u32,
    sequence: u64,
    _permit: SemaphorePermit<'a>,
}

impl ServerSession {
    pub(crate) fn new(member: u64) -> Self {
        let permits = Semaphore::new(SLOTS_MAX);
        Self { member, life: Mutex::default(), permits, slots: Mutex::default() }
    }

    /// The life of this process, once the group has assigned it.
    pub(crate) fn life(&self) -> Arc<OnceCell<u64>> {
        Arc::clone(&self.life.lock())
    }

    /// Forgets a life that the group has dropped: the next command gets another one.
    pub(crate) fn reset(&self, life: u64) {
        let mut current = self.life.lock();
        if current.get() == Some(&life) {
            tracing::info!(life, "the group has dropped this process's server session, beginning another");
            *current = Arc::default();
        }
    }

    /// Takes a free slot; waits for one if all are in use.
    ///
    /// # Errors None, as long as the session exists.
    pub(crate) async fn take_slot(&self) -> Result<Slot<'_>, tokio::sync::AcquireError> {
        let permit = self.permits.acquire().await?;
        let mut slots = self.slots.lock();
        let (number, sequence) = slots.free.pop_first().unwrap_or_else(|| {
            slots.made += 1;
            (slots.made - 1, 1)
        });
        Ok(Slot { session: self, number, sequence, _permit: permit })
    }
}

impl Slot<'_> {
    /// Request id of the command in this slot.
    pub(crate) fn request(&self, life: u64) -> MemberRequest {
        MemberRequest { member: self.session.member, life, slot: self.number, sequence: self.sequence }
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        // Also if its caller went away: a late copy of its command has an older sequence, and is not applied.
        let mut slots = self.session.slots.lock();
        slots.free.insert(self.number, self.sequence + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slot_is_used_again_with_the_next_sequence_and_never_by_two() {
        let session = ServerSession::new(5);
        let id = |slot: &Slot<'_>| {
            let at = slot.request(9);
            (at.member, at.life, at.slot, at.sequence)
        };
        let (first, second) = (session.take_slot().await.unwrap(), session.take_slot().await.unwrap());
        assert_eq!((id(&first), id(&second)), ((5, 9, 0, 1), (5, 9, 1, 1)));
        drop(first);
        let again = session.take_slot().await.unwrap();
        assert_eq!(id(&again), (5, 9, 0, 2));
        drop((again, second));

        let mut all = vec![];
        for _ in 0..SLOTS_MAX {
            all.push(session.take_slot().await.unwrap());
        }
        assert!(futures_util::FutureExt::now_or_never(session.take_slot()).is_none(), "the next waits");
        all.pop();
        assert!(futures_util::FutureExt::now_or_never(session.take_slot()).is_some());
    }
}
