//! Who waits for a byte-range lock, and is told when it is free (CB_NOTIFY_LOCK; RFC 8881, sections 9.6 and 20.11).
//!
//! A waiting LOCK that is denied joins the queue of its file. When a lock goes, those in front whom nothing is in the way
//! of any more are told: one writer, or all readers up to the next writer. Who was told has a turn: for a moment a later
//! waiter is denied what would be in its way. Who does not come in its turn leaves the queue.
//!
//! All of it is memory only. A server that starts again knows of no waiters, and they ask again by themselves, as they do
//! when a call-back is lost: the queue makes waits short and fair, and nothing depends on it.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use namespace::{ByteRange, ClientId, ClientRecord, Conflict, InodeId, LockKind, read};
use wire::nfs4::StateOwner;
use wire::nfs4::callback::{CbArgOp, NotifyLockArgs};

use crate::Metaserver;

/// Waiters of all files together. More are not told and ask again by themselves; so many are about a megabyte.
const WAITERS_MAX: usize = 8192;

/// Waiters of one client, so that one cannot take all places.
const WAITERS_OF_CLIENT_MAX: usize = 1024;

/// How long a waiter who was told goes before later ones. A round trip is enough; a lease, which the RFC allows, would
/// stop everybody for a client that died.
const TURN: Duration = Duration::from_secs(2);

/// A waiter that has not asked for so long has given up; Linux asks every 30 s.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// One lock-owner that waits for one lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub client: ClientId,
    pub owner: Vec<u8>,
    pub kind: LockKind,
    pub range: ByteRange,
    /// When it asked last, and when it was told, on the monotonic clock.
    asked: Duration,
    told: Option<Duration>,
}

impl Waiter {
    pub(crate) fn new(
        client: ClientId,
        owner: Vec<u8>,
        kind: LockKind,
        range: ByteRange,
        now: Duration,
    ) -> Self {
        Self { client, owner, kind, range, asked: now, told: None }
    }

    fn is(&self, client: ClientId, owner: &[u8]) -> bool {
        self.client == client && self.owner == owner
    }

    fn excludes(&self, other: &Self) -> bool {
        let overlap = self.range.start < other.range.end && other.range.start < self.range.end;
        overlap && (self.kind == LockKind::Write || other.kind == LockKind::Write)
    }

    fn has_turn(&self, now: Duration) -> bool {
        self.told.is_some_and(|told| now.saturating_sub(told) < TURN)
    }
}

/// The queues of all files. A file without waiters has none.
#[derive(Default)]
pub(crate) struct LockWaiters(Mutex<BTreeMap<InodeId, Vec<Waiter>>>);

impl LockWaiters {
    /// Joins the queue, or stays where it is in it. Not when there are too many.
    pub(crate) fn wait(&self, inode: InodeId, waiter: Waiter) {
        let Ok(mut queues) = self.0.lock() else { return };
        let known = queues
            .get_mut(&inode)
            .and_then(|queue| queue.iter_mut().find(|known| known.is(waiter.client, &waiter.owner)));
        if let Some(known) = known {
            *known = waiter;
            return;
        }
        let (mut all, mut own) = (0, 0);
        for other in queues.values().flatten() {
            all += 1;
            own += usize::from(other.client == waiter.client);
        }
        if all < WAITERS_MAX && own < WAITERS_OF_CLIENT_MAX {
            queues.entry(inode).or_default().push(waiter);
        }
    }

    /// The owner waits no longer: it has its lock, or let it be.
    pub(crate) fn leave(&self, inode: InodeId, client: ClientId, owner: &[u8]) {
        let Ok(mut queues) = self.0.lock() else { return };
        if let Some(queue) = queues.get_mut(&inode) {
            queue.retain(|waiter| !waiter.is(client, owner));
            if queue.is_empty() {
                queues.remove(&inode);
            }
        }
    }

    /// The client is gone.
    pub(crate) fn forget_client(&self, client: ClientId) {
        let Ok(mut queues) = self.0.lock() else { return };
        queues.retain(|_, queue| {
            queue.retain(|waiter| waiter.client != client);
            !queue.is_empty()
        });
    }

    /// Whose turn it is that `asking` would take, if it has none itself: shown to it as the lock in its way.
    pub(crate) fn turn_of_another(&self, inode: InodeId, asking: &Waiter, now: Duration) -> Option<Conflict> {
        let queues = self.0.lock().ok()?;
        let queue = queues.get(&inode)?;
        let other =
            queue.iter().filter(|waiter| waiter.has_turn(now)).find(|waiter| waiter.excludes(asking))?;
        let Waiter { client, owner, kind, range, .. } = other.clone();
        (!other.is(asking.client, &asking.owner)).then_some(Conflict { range, kind, client, owner })
    }

    fn are_any(&self, inode: InodeId) -> bool {
        self.0.lock().is_ok_and(|queues| queues.contains_key(&inode))
    }

    fn files(&self) -> Vec<InodeId> {
        self.0.lock().map_or_else(|_| vec![], |queues| queues.keys().copied().collect())
    }

    /// Whose turn it becomes now, in the order in which they came. `is_free`: no lock is in its way.
    fn next(&self, inode: InodeId, now: Duration, is_free: impl Fn(&Waiter) -> bool) -> Vec<Waiter> {
        let Ok(mut queues) = self.0.lock() else { return vec![] };
        let Some(queue) = queues.get_mut(&inode) else { return vec![] };
        queue.retain(|waiter| match waiter.told {
            Some(_) => waiter.has_turn(now),
            None => now.saturating_sub(waiter.asked) < SILENCE_MAX,
        });
        let mut turns: Vec<Waiter> = queue.iter().filter(|waiter| waiter.told.is_some()).cloned().collect();
        let mut next = Vec::new();
        for waiter in queue.iter_mut().filter(|waiter| waiter.told.is_none()) {
            if is_free(waiter) && !turns.iter().any(|turn| turn.excludes(waiter)) {
                waiter.told = Some(now);
                turns.push(waiter.clone());
                next.push(waiter.clone());
            }
        }
        if queue.is_empty() {
            queues.remove(&inode);
        }
        next
    }
}

impl Metaserver {
    /// A lock of `inode` may have gone: whoever can have it now is told.
    pub(crate) fn tell_lock_waiters(&self, inode: InodeId) {
        if !self.lock_waiters.are_any(inode) {
            return; // nearly always
        }
        let Ok(view) = self.view() else { return };
        let Ok(Some(file)) = read::inode(&*view, inode) else { return };
        let is_free = |Waiter { client, owner, kind, range, .. }: &Waiter| {
            match read::conflicting_lock(&*view, inode, *client, owner, *kind, *range) {
                Ok(None) => true,
                // Its holder has lapsed, and is expired by whoever asks.
                Ok(Some(held)) => {
                    matches!(
                        read::client(&*view, held.client),
                        Ok(Some(ClientRecord { lapsed: Some(_), .. }))
                    )
                }
                Err(_) => false,
            }
        };
        for waiter in self.lock_waiters.next(inode, self.clock.monotonic(), is_free) {
            let owner = bytes::Bytes::from(waiter.owner).into();
            let lock_owner = StateOwner { clientid: wire::nfs4::ClientId(waiter.client.0), owner };
            let fh = self.handle(inode, file.generation).into();
            // Nobody waits for the answer: a waiter that is not reached asks by itself.
            let call = self.call_back(waiter.client, CbArgOp::NotifyLock(NotifyLockArgs { fh, lock_owner }));
            tokio::spawn(call);
        }
    }

    /// Locks of any file may have gone, with a client; and turns end.
    pub(crate) fn tell_all_lock_waiters(&self) {
        for inode in self.lock_waiters.files() {
            self.tell_lock_waiters(inode);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: InodeId = InodeId(9);
    const READ: LockKind = LockKind::Read;
    const WRITE: LockKind = LockKind::Write;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn waiter(client: u64, owner: &str, kind: LockKind, range: std::ops::Range<u64>, at: u64) -> Waiter {
        let range = ByteRange { start: range.start, end: range.end };
        Waiter::new(ClientId(client), owner.into(), kind, range, s(at))
    }

    /// Who is told at a time when no lock is held: owners.
    fn told(waiters: &LockWaiters, at: u64) -> Vec<String> {
        let next = waiters.next(FILE, s(at), |_| true);
        next.into_iter().map(|waiter| String::from_utf8(waiter.owner).expect("a test's name")).collect()
    }

    #[test]
    fn waiters_are_told_in_the_order_in_which_they_came_readers_together() {
        let waiters = LockWaiters::default();
        for (at, owner, kind) in [(1, "w1", WRITE), (2, "r1", READ), (3, "r2", READ), (4, "w2", WRITE)] {
            waiters.wait(FILE, waiter(1, owner, kind, 0..10, at));
        }
        waiters.wait(FILE, waiter(1, "elsewhere", WRITE, 10..20, 5));
        assert_eq!(told(&waiters, 10), ["w1", "elsewhere"]);
        assert_eq!(told(&waiters, 11), Vec::<String>::new(), "each once, and the others after its turn");
        waiters.leave(FILE, ClientId(1), b"w1");
        assert_eq!(told(&waiters, 11), ["r1", "r2"]);
        waiters.leave(FILE, ClientId(1), b"r1");
        assert_eq!(told(&waiters, 11), Vec::<String>::new());
        waiters.leave(FILE, ClientId(1), b"r2");
        assert_eq!(told(&waiters, 11), ["w2"]);
    }

    #[test]
    fn who_does_not_come_in_its_turn_leaves_the_queue_to_the_next() {
        let waiters = LockWaiters::default();
        waiters.wait(FILE, waiter(1, "dead", WRITE, 0..10, 1));
        waiters.wait(FILE, waiter(2, "next", WRITE, 0..10, 1));
        assert_eq!(told(&waiters, 10), ["dead"]);
        let barging = waiter(3, "late", WRITE, 5..6, 11);
        let in_the_way = waiters.turn_of_another(FILE, &barging, s(11)).expect("it is another's turn");
        assert_eq!((in_the_way.client, in_the_way.owner.as_slice()), (ClientId(1), &b"dead"[..]));
        assert_eq!(
            waiters.turn_of_another(FILE, &waiter(1, "dead", WRITE, 0..10, 11), s(11)),
            None,
            "its own"
        );
        assert_eq!(waiters.turn_of_another(FILE, &waiter(3, "late", WRITE, 10..11, 11), s(11)), None);
        assert_eq!(waiters.turn_of_another(FILE, &barging, s(12)), None, "turns end");
        assert_eq!(told(&waiters, 12), ["next"]);
    }

    #[test]
    fn only_who_nothing_is_in_the_way_of_is_told() {
        let waiters = LockWaiters::default();
        waiters.wait(FILE, waiter(1, "blocked", WRITE, 0..10, 1));
        waiters.wait(FILE, waiter(1, "free", WRITE, 0..10, 1));
        let next = waiters.next(FILE, s(2), |waiter| waiter.owner == b"free");
        assert_eq!(next.into_iter().map(|w| w.owner).collect::<Vec<_>>(), [b"free"]);
    }

    #[test]
    fn the_queue_is_bounded_and_forgets_who_went() {
        let waiters = LockWaiters::default();
        for number in 0..2 * WAITERS_OF_CLIENT_MAX {
            waiters.wait(FILE, waiter(1, &number.to_string(), READ, 0..1, 1));
        }
        waiters.wait(FILE, waiter(2, "other", READ, 0..1, 1));
        waiters.wait(FILE, waiter(2, "other", READ, 0..1, 100));
        assert_eq!(waiters.0.lock().unwrap()[&FILE].len(), WAITERS_OF_CLIENT_MAX + 1);
        assert_eq!(told(&waiters, 200), ["other"], "the silent have given up");
        waiters.forget_client(ClientId(2));
        assert_eq!(waiters.files(), []);
    }
}
