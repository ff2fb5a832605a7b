//! Lock waiters: clients that wait for a byte-range lock, notified when it is free (CB_NOTIFY_LOCK; RFC 8881,
//! sections 9.6 and 20.11).
//!
//! A waiting LOCK that is denied joins the queue of its file. When a lock is released, the first waiters
//! without a conflict are notified: one writer, or all readers up to the next writer. A notified waiter has a
//! turn: for a moment a later waiter is denied conflicting locks. A waiter that does not use its turn leaves
//! the queue.
//!
//! All of it is memory only. A server that starts again knows of no waiters, and they ask again by
//! themselves, as they do when a call-back is lost: the queue makes waits short and fair, and nothing depends
//! on it.
//!
//! **When this metaserver is killed** its waiters must find out, and go to another one. A Linux client that
//! was answered DENIED counts on being told, and has nothing to ask for 30 s; a connection that breaks
//! meanwhile is not made again before there is something to send. So in a group of several a waiter is
//! answered DELAY, after which it asks again by itself: after 0.1 s, 0.2 s, 0.4 s, and so on to 15 s
//! (nfs4_delay in fs/nfs/nfs4proc.c). It sleeps so that a call-back wakes it as before, since it is in the
//! kernel's list of waiters all the time (nfs4_retry_setlk).
//!
//! ```text
//! client                          metaserver
//!   LOCK (wait)  ────────────────▶
//!                ◀──────────────── DELAY                    asks again after 0.1, 0.2, 0.4, 0.8, 1.6 s
//!   LOCK (wait)  ────────────────▶                          the sixth: the next pause would be 3.2 s
//!                ◀──────────────── CB_NOTIFY_LOCK           answered before the LOCK is:
//!   ok           ────────────────▶
//!                ◀──────────────── DENIED                   the client was told already, and asks at once: 0.1 s again
//! ```
//!
//! So it asks six times in 3.1 s, and the metaserver that it asks has it in its queue. That depends on three
//! rules:
//!
//! - **DENIED only to a waiter that was told already**, in the same LOCK. Any other loss on the way (a
//!   call-back, a queue, the metaserver that would have told) then costs one pause.
//! - **No pause above 1.6 s.** DELAYs are counted, not timed: a client that is woken asks before its pause is
//!   over, and pauses for twice as long the next time all the same. A client from another metaserver may have
//!   had any number of them there: it begins anew at once, or, before it has bound a back channel here, as
//!   soon as it has.
//! - **Every OPEN says that locks are notified** (`OPEN4_RESULT_MAY_NOTIFY_LOCK`), also while the client has
//!   no back channel: Linux otherwise does not listen to CB_NOTIFY_LOCK for that open, says OK to it, and
//!   after DENIED sleeps for 1, 2, 4, ... 30 s (nfs4_retry_setlk_simple).
//!
//! Alternatives considered: a shorter client lease (Linux renews after 5 s at the least), holding the LOCK
//! back (no signal but a fatal one ends that wait).

use std::collections::BTreeMap;
use std::time::Duration;

use namespace::{ByteRange, ClientId, ClientRecord, Conflict, InodeId, LockKind, read};
use nfs::Session;
use parking_lot::Mutex;
use store::View;
use wire::nfs4::callback::{CbArgOp, NotifyLockArgs};
use wire::nfs4::{StateOwner, Status};

use crate::errors::FileError;
use crate::exports::admission::Via;
use crate::state::ClientState;

/// Waiters of all files together. More are not told and ask again by themselves; so many are about a
/// megabyte.
const WAITERS_MAX: usize = 8192;

/// Waiters of one client, so that one cannot take all places.
const WAITERS_OF_CLIENT_MAX: usize = 1024;

/// Length of a turn: for so long a notified waiter goes before later ones. A round trip is enough; a client
/// lease, which the RFC allows, would stop all waiters for a client that died.
const TURN: Duration = Duration::from_secs(2);

/// A waiter that has not asked for so long has given up; Linux asks every 30 s.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// After so many DELAYs a client pauses for 1.6 s, and is to begin again: see above.
const DELAYS_MAX: u32 = 5;

/// A client that came so long ago from another metaserver has asked here since: Linux pauses for 15 s at the
/// most.
const COMES: Duration = Duration::from_secs(20);

/// With more waiters than this (700 LOCKs a second), pauses grow.
const OFTEN_ASKING_MAX: usize = 350;

/// A client answers a call-back at once, or is busy: then its LOCK does not wait for it.
const NOTICE_TIME_MAX: Duration = Duration::from_millis(500);

/// Answer to a waiter whose LOCK is denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// It is not waited for: there are too many.
    Denied,
    /// It asks again by itself.
    Delay,
    /// It is to begin again with a short pause.
    Anew,
}

/// One lock-owner that waits for one lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub client: ClientId,
    pub owner: Vec<u8>,
    pub kind: LockKind,
    pub range: ByteRange,
    /// The exported directory that it named the file through: its handles name it, so CB_NOTIFY_LOCK does.
    pub export: InodeId,
    /// When it asked last, and when it was told, on the monotonic clock.
    asked: Duration,
    told: Option<Duration>,
    /// It was told, and did not come in its turn: it is not told again before it asks.
    missed: bool,
    /// Since its pauses were short: how often it was answered DELAY, or more often than that.
    delays: u32,
}

impl Waiter {
    pub(crate) fn new(
        client: ClientId,
        owner: Vec<u8>,
        kind: LockKind,
        range: ByteRange,
        export: InodeId,
        now: Duration,
    ) -> Self {
        Self { client, owner, kind, range, export, asked: now, told: None, missed: false, delays: 0 }
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
    /// Joins the queue, or stays where it is in it. Not when there are too many. `comes`: it may have been
    /// answered DELAY elsewhere.
    fn wait(&self, inode: InodeId, waiter: Waiter, comes: bool) -> Answer {
        let mut queues = self.0.lock();
        let (mut all, mut own) = (0, 0);
        for other in queues.values().flatten() {
            all += 1;
            own += usize::from(other.client == waiter.client);
        }
        let known = queues
            .get_mut(&inode)
            .and_then(|queue| queue.iter_mut().find(|known| known.is(waiter.client, &waiter.owner)));
        let delays = known.as_ref().map_or(if comes { DELAYS_MAX } else { 0 }, |known| known.delays);
        let answer =
            if delays >= DELAYS_MAX && all <= OFTEN_ASKING_MAX { Answer::Anew } else { Answer::Delay };
        let waiter = Waiter { delays: DELAYS_MAX.min(delays + 1), ..waiter };
        match known {
            Some(known) => *known = waiter,
            None if all >= WAITERS_MAX || own >= WAITERS_OF_CLIENT_MAX => return Answer::Denied,
            None => queues.entry(inode).or_default().push(waiter),
        }
        answer
    }

    /// The owner was told to ask again, and has heard it: its pauses are short again.
    fn begins_anew(&self, inode: InodeId, client: ClientId, owner: &[u8]) {
        let mut queues = self.0.lock();
        let queue = queues.get_mut(&inode).into_iter().flatten();
        queue.filter(|waiter| waiter.is(client, owner)).for_each(|waiter| waiter.delays = 0);
    }

    /// Waiters of a client that are to begin anew.
    fn who_may_pause_for_long(&self, client: ClientId) -> Vec<(InodeId, Waiter)> {
        let queues = self.0.lock();
        let all = queues.iter().flat_map(|(inode, queue)| queue.iter().map(|waiter| (*inode, waiter)));
        let who = all.filter(|(_, waiter)| waiter.client == client && waiter.delays >= DELAYS_MAX);
        who.map(|(inode, waiter)| (inode, waiter.clone())).collect()
    }

    /// Whether the owner is in the queue.
    pub(crate) fn knows(&self, inode: InodeId, client: ClientId, owner: &[u8]) -> bool {
        let queues = self.0.lock();
        queues.get(&inode).is_some_and(|queue| queue.iter().any(|waiter| waiter.is(client, owner)))
    }

    /// The owner waits no longer: it has its lock, or let it be.
    pub(crate) fn leave(&self, inode: InodeId, client: ClientId, owner: &[u8]) {
        let mut queues = self.0.lock();
        if let Some(queue) = queues.get_mut(&inode) {
            queue.retain(|waiter| !waiter.is(client, owner));
            if queue.is_empty() {
                queues.remove(&inode);
            }
        }
    }

    /// The client is gone.
    pub(crate) fn forget_client(&self, client: ClientId) {
        let mut queues = self.0.lock();
        queues.retain(|_, queue| {
            queue.retain(|waiter| waiter.client != client);
            !queue.is_empty()
        });
    }

    /// Whose turn it is that `asking` would take, if it has none itself: shown to it as the lock in its way.
    pub(crate) fn turn_of_another(&self, inode: InodeId, asking: &Waiter, now: Duration) -> Option<Conflict> {
        let queues = self.0.lock();
        let queue = queues.get(&inode)?;
        let other =
            queue.iter().filter(|waiter| waiter.has_turn(now)).find(|waiter| waiter.excludes(asking))?;
        let Waiter { client, owner, kind, range, .. } = other.clone();
        (!other.is(asking.client, &asking.owner)).then_some(Conflict { range, kind, client, owner })
    }

    fn are_any(&self, inode: InodeId) -> bool {
        self.0.lock().contains_key(&inode)
    }

    fn files(&self) -> Vec<InodeId> {
        self.0.lock().keys().copied().collect()
    }

    /// Whose turn it becomes now, in the order in which they came. `is_free`: no lock is in its way.
    fn next(&self, inode: InodeId, now: Duration, is_free: impl Fn(&Waiter) -> bool) -> Vec<Waiter> {
        let mut queues = self.0.lock();
        let Some(queue) = queues.get_mut(&inode) else { return vec![] };
        queue.retain(|waiter| now.saturating_sub(waiter.asked) < SILENCE_MAX);
        for late in queue.iter_mut().filter(|waiter| waiter.told.is_some() && !waiter.has_turn(now)) {
            (late.told, late.missed) = (None, true);
        }
        let mut turns: Vec<Waiter> = queue.iter().filter(|waiter| waiter.told.is_some()).cloned().collect();
        let mut next = Vec::new();
        for waiter in queue.iter_mut().filter(|waiter| waiter.told.is_none() && !waiter.missed) {
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

impl ClientState {
    /// The lock that conflicts with `waiter`. None if its holder has lapsed: the next LOCK expires that
    /// client.
    pub(crate) fn conflict_with(
        &self,
        view: &dyn View,
        inode: InodeId,
        waiter: &Waiter,
    ) -> Result<Option<Conflict>, FileError> {
        let Waiter { client, owner, kind, range, .. } = waiter;
        let found = read::conflicting_lock(view, inode, *client, owner, *kind, *range);
        let Some(held) = found? else { return Ok(None) };
        let holder = read::client(view, held.client)?;
        let has_lapsed = matches!(holder, Some(ClientRecord { lapsed: Some(_), .. }));
        Ok((!has_lapsed).then_some(held))
    }

    /// Notifies the waiters of `inode` that can have their locks now: one may have been released.
    pub(crate) fn tell_lock_waiters(&self, inode: InodeId) {
        if !self.lock_waiters.are_any(inode) {
            return; // nearly always
        }
        let Ok(view) = self.machine.view() else { return };
        let is_free = |waiter: &Waiter| matches!(self.conflict_with(&*view, inode, waiter), Ok(None));
        for waiter in self.lock_waiters.next(inode, self.machine.clock.monotonic(), is_free) {
            let Some(op) = self.notice(&*view, inode, &waiter) else { return };
            // The answer is not waited for: a waiter that is not reached asks by itself.
            tokio::spawn(self.call_back(waiter.client, op));
        }
    }

    /// CB_NOTIFY_LOCK; none if the file is gone.
    fn notice(&self, view: &dyn View, inode: InodeId, waiter: &Waiter) -> Option<CbArgOp> {
        let file = read::inode(view, inode).ok()??;
        let owner = bytes::Bytes::copy_from_slice(&waiter.owner).into();
        let lock_owner = StateOwner { clientid: wire::nfs4::ClientId(waiter.client.0), owner };
        let fh = self.machine.handle(Via::Export(waiter.export), inode, file.generation).into();
        Some(CbArgOp::NotifyLock(NotifyLockArgs { fh, lock_owner }))
    }

    /// A LOCK of `session` that waits was denied: `waiter` waits from now on, or waits on. Whether it is to
    /// be answered DELAY and not DENIED.
    pub(crate) async fn waits_on(&self, session: &Session, inode: InodeId, waiter: Waiter) -> bool {
        let answer = self.lock_waiters.wait(inode, waiter.clone(), session.has_come_within(COMES));
        // The lock may have been released since it was denied, when the queue was empty.
        self.tell_lock_waiters(inode);
        if self.machine.replica.is_alone() {
            return session.back.is_down(); // nobody else to go to
        }
        match answer {
            Answer::Denied => false,
            Answer::Delay => true,
            Answer::Anew => !self.is_told_to_ask(inode, &waiter).await,
        }
    }

    /// Tells a waiter to ask again, over its connection to this metaserver. Whether it has heard it.
    async fn is_told_to_ask(&self, inode: InodeId, waiter: &Waiter) -> bool {
        let Some(op) = self.machine.view().ok().and_then(|view| self.notice(&*view, inode, waiter)) else {
            return false;
        };
        // In a task of its own: a call cut short would lose its slot of the back channel.
        let call = tokio::spawn(self.call_back_here(waiter.client, op));
        let answer = tokio::time::timeout(NOTICE_TIME_MAX, call).await;
        let is_told = matches!(answer, Ok(Ok(Ok(Status::Ok))));
        if is_told {
            self.lock_waiters.begins_anew(inode, waiter.client, &waiter.owner);
        }
        is_told
    }

    /// The client can be called back here from now on: those of its waiters that came from elsewhere are
    /// woken, and are told to begin anew when they ask.
    pub(crate) fn wake_lock_waiters(&self, client: ClientId) {
        let who = self.lock_waiters.who_may_pause_for_long(client);
        if who.is_empty() {
            return; // nearly always
        }
        let Ok(view) = self.machine.view() else { return };
        for (inode, waiter) in who {
            if let Some(op) = self.notice(&*view, inode, &waiter) {
                tokio::spawn(self.call_back_here(client, op));
            }
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
        Waiter::new(ClientId(client), owner.into(), kind, range, InodeId::ROOT, s(at))
    }

    fn waits(waiters: &LockWaiters, waiter: Waiter) -> Answer {
        waiters.wait(FILE, waiter, false)
    }

    /// Owners that are notified at this time, while no lock is held.
    fn told(waiters: &LockWaiters, at: u64) -> Vec<String> {
        let next = waiters.next(FILE, s(at), |_| true);
        next.into_iter().map(|waiter| String::from_utf8(waiter.owner).expect("a test's name")).collect()
    }

    #[test]
    fn waiters_are_told_in_the_order_in_which_they_came_readers_together() {
        let waiters = LockWaiters::default();
        for (at, owner, kind) in [(1, "w1", WRITE), (2, "r1", READ), (3, "r2", READ), (4, "w2", WRITE)] {
            waits(&waiters, waiter(1, owner, kind, 0..10, at));
        }
        waits(&waiters, waiter(1, "elsewhere", WRITE, 10..20, 5));
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
        waits(&waiters, waiter(1, "dead", WRITE, 0..10, 1));
        waits(&waiters, waiter(2, "next", WRITE, 0..10, 1));
        assert_eq!(told(&waiters, 10), ["dead"]);
        let barging = waiter(3, "late", WRITE, 5..6, 11);
        let conflict = waiters.turn_of_another(FILE, &barging, s(11)).expect("it is another's turn");
        assert_eq!((conflict.client, conflict.owner.as_slice()), (ClientId(1), &b"dead"[..]));
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
    fn only_waiters_without_a_conflict_are_told() {
        let waiters = LockWaiters::default();
        waits(&waiters, waiter(1, "blocked", WRITE, 0..10, 1));
        waits(&waiters, waiter(1, "free", WRITE, 0..10, 1));
        let next = waiters.next(FILE, s(2), |waiter| waiter.owner == b"free");
        assert_eq!(next.into_iter().map(|w| w.owner).collect::<Vec<_>>(), [b"free"]);
    }

    #[test]
    fn a_waiter_is_told_after_five_delays_unless_too_many_wait() {
        let waiters = LockWaiters::default();
        let ask = |owner: &str| waits(&waiters, waiter(1, owner, WRITE, 0..10, 0));
        let [delay, anew] = [Answer::Delay, Answer::Anew];
        assert_eq!(
            [(); 7].map(|()| ask("w")),
            [delay, delay, delay, delay, delay, anew, anew],
            "until it hears it"
        );
        waiters.begins_anew(FILE, ClientId(1), b"w");
        assert_eq!([(); 6].map(|()| ask("w")), [delay, delay, delay, delay, delay, anew]);
        for number in 0..OFTEN_ASKING_MAX {
            ask(&number.to_string());
        }
        assert_eq!(ask("w"), delay, "it has company");
        for number in 0..OFTEN_ASKING_MAX {
            waiters.leave(FILE, ClientId(1), number.to_string().as_bytes());
        }
        assert_eq!(ask("w"), anew);
    }

    #[test]
    fn delays_count_that_a_waiter_was_answered_elsewhere_or_before_it_missed_its_turn() {
        let waiters = LockWaiters::default();
        assert_eq!(waiters.wait(FILE, waiter(1, "comes", WRITE, 0..10, 1), true), Answer::Anew);
        assert_eq!(waiters.who_may_pause_for_long(ClientId(1)).len(), 1);
        for at in 1..=5 {
            waits(&waiters, waiter(2, "misses", WRITE, 20..30, at));
        }
        assert_eq!(told(&waiters, 6), ["comes", "misses"]);
        assert_eq!(told(&waiters, 9), Vec::<String>::new());
        assert_eq!(waits(&waiters, waiter(2, "misses", WRITE, 20..30, 10)), Answer::Anew);
        assert_eq!(told(&waiters, 11), ["misses"], "it asked again");
        waiters.begins_anew(FILE, ClientId(1), b"comes");
        assert_eq!(waiters.who_may_pause_for_long(ClientId(1)), []);
    }

    #[test]
    fn the_queue_is_bounded_and_forgets_who_went() {
        let waiters = LockWaiters::default();
        for number in 0..2 * WAITERS_OF_CLIENT_MAX {
            waits(&waiters, waiter(1, &number.to_string(), READ, 0..1, 1));
        }
        waits(&waiters, waiter(2, "other", READ, 0..1, 1));
        waits(&waiters, waiter(2, "other", READ, 0..1, 100));
        assert_eq!(waiters.0.lock()[&FILE].len(), WAITERS_OF_CLIENT_MAX + 1);
        assert_eq!(told(&waiters, 200), ["other"], "the silent have given up");
        waiters.forget_client(ClientId(2));
        assert_eq!(waiters.files(), []);
    }
}
