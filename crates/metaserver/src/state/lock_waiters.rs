//! Lock waiters: clients that wait for a byte-range lock, notified when it is free (CB_NOTIFY_LOCK; RFC 8881,
//! sections 9.6 and 20.11).
//!
//! A waiting LOCK that is denied joins the queue of its file. When a lock is released, the first waiters
//! without a conflict are notified: one writer, or all readers up to the next writer. A notified waiter has a
//! turn: for a moment a later waiter is denied conflicting locks. A waiter that does not use its turn leaves
//! the queue.
//!
//! The queues are in memory only. A restarted server has no waiters. The clients then ask again by
//! themselves, as they do when a callback is lost. The queue makes waits short and fair, and correctness does
//! not depend on it.
//!
//! **When this metaserver is killed** its waiters must notice, and go to another metaserver. A Linux client
//! that got the answer DENIED waits for a notice, and sends nothing for 30 s; it does not reconnect a broken
//! connection before it has something to send. So in a group of several metaservers a waiter gets the answer
//! DELAY, after which it asks again by itself: after 0.1 s, 0.2 s, 0.4 s, and so on to 15 s (nfs4_delay in
//! fs/nfs/nfs4proc.c). A callback wakes it from this sleep as well, since it is in the kernel's list of
//! waiters all the time (nfs4_retry_setlk).
//!
//! ```text
//! client                          metaserver
//!   LOCK (wait)  ────────────────▶
//!                ◀──────────────── DELAY                    asks again after 0.1, 0.2, 0.4, 0.8, 1.6 s
//!   LOCK (wait)  ────────────────▶                          the sixth: the next pause would be 3.2 s
//!                ◀──────────────── CB_NOTIFY_LOCK           answered before the LOCK is:
//!   ok           ────────────────▶
//!                ◀──────────────── DENIED                   has its notice, asks at once: 0.1 s again
//! ```
//!
//! So a waiter asks six times in 3.1 s, and the metaserver that it asks has it in its queue. That depends on
//! three rules:
//!
//! - **DENIED only to a waiter that has been notified**, in the same LOCK. Any other loss on the way (of a
//!   callback, a queue, the metaserver that would have notified) then costs one pause.
//! - **No pause above 1.6 s.** DELAYs are counted, not timed: a client that is woken asks before its pause is
//!   over, but doubles its next pause all the same. A client that comes from another metaserver may have had
//!   any number of DELAYs there. It starts its pauses again at once, or as soon as it has bound a back
//!   channel here.
//! - **The result of every OPEN says that lock waiters are notified** (`OPEN4_RESULT_MAY_NOTIFY_LOCK`), also
//!   while the client has no back channel. Otherwise Linux ignores CB_NOTIFY_LOCK for that open, answers OK
//!   to it, and after DENIED sleeps for 1, 2, 4, ... 30 s (nfs4_retry_setlk_simple).
//!
//! Alternatives considered: a shorter client lease (Linux renews every 5 s at most), and holding the LOCK
//! back (only a fatal signal ends that wait).

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

/// Maximum of waiters of all files together, about a megabyte. Further clients are not notified and ask again
/// by themselves.
const WAITERS_MAX: usize = 8192;

/// Maximum of waiters of one client, so that one client cannot fill the queues.
const WAITERS_OF_CLIENT_MAX: usize = 1024;

/// Length of a turn, in which a notified waiter goes before later ones. A round trip is enough. A client
/// lease, which the RFC allows, would stop all waiters for a client that died.
const TURN: Duration = Duration::from_secs(2);

/// Silence after which a waiter has given up; Linux asks every 30 s.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// Maximum of DELAYs in a row. After so many the client's pause is 1.6 s, and it must start again: see above.
const DELAYS_MAX: u32 = 5;

/// Time after which a client from another metaserver has asked here: Linux pauses for 15 s at most.
const COMES: Duration = Duration::from_secs(20);

/// Number of waiters (700 LOCKs a second) above which pauses may grow.
const OFTEN_ASKING_MAX: usize = 350;

/// Time limit for the answer to a callback. A client that does not answer at once is busy, and its LOCK does
/// not wait for the answer.
const NOTICE_TIME_MAX: Duration = Duration::from_millis(500);

/// Answer to a waiter whose LOCK is denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// Not in the queue: there are too many waiters.
    Denied,
    /// The client asks again by itself.
    Delay,
    /// The client must start again with a short pause.
    Anew,
}

/// Lock-owner that waits for one lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub client: ClientId,
    pub owner: Vec<u8>,
    pub kind: LockKind,
    pub range: ByteRange,
    /// Exported directory in the waiter's file handle. CB_NOTIFY_LOCK names the file by the same handle.
    pub export: InodeId,
    /// Times of the last LOCK and of the notice, on the monotonic clock.
    asked: Duration,
    told: Option<Duration>,
    /// True if the waiter missed its turn: it is not notified again before its next LOCK.
    missed: bool,
    /// Upper limit of the DELAYs since the client's last short pause.
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

/// Queues of all files. A file without waiters has none.
#[derive(Default)]
pub(crate) struct LockWaiters(Mutex<BTreeMap<InodeId, Vec<Waiter>>>);

impl LockWaiters {
    /// Adds the waiter to the queue, or keeps its place there; denied when there are too many. `comes`: the
    /// client may have been answered DELAY by another metaserver.
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

    /// Notes that the owner has confirmed its notice: its pauses are short again.
    fn begins_anew(&self, inode: InodeId, client: ClientId, owner: &[u8]) {
        let mut queues = self.0.lock();
        let queue = queues.get_mut(&inode).into_iter().flatten();
        queue.filter(|waiter| waiter.is(client, owner)).for_each(|waiter| waiter.delays = 0);
    }

    /// Waiters of a client that must start again with a short pause.
    fn who_may_pause_for_long(&self, client: ClientId) -> Vec<(InodeId, Waiter)> {
        let queues = self.0.lock();
        let all = queues.iter().flat_map(|(inode, queue)| queue.iter().map(|waiter| (*inode, waiter)));
        let who = all.filter(|(_, waiter)| waiter.client == client && waiter.delays >= DELAYS_MAX);
        who.map(|(inode, waiter)| (inode, waiter.clone())).collect()
    }

    /// True if the owner is in the queue.
    pub(crate) fn knows(&self, inode: InodeId, client: ClientId, owner: &[u8]) -> bool {
        let queues = self.0.lock();
        queues.get(&inode).is_some_and(|queue| queue.iter().any(|waiter| waiter.is(client, owner)))
    }

    /// Removes the owner from the queue: it has its lock, or gave up.
    pub(crate) fn leave(&self, inode: InodeId, client: ClientId, owner: &[u8]) {
        let mut queues = self.0.lock();
        if let Some(queue) = queues.get_mut(&inode) {
            queue.retain(|waiter| !waiter.is(client, owner));
            if queue.is_empty() {
                queues.remove(&inode);
            }
        }
    }

    /// Removes all waiters of a client that ended.
    pub(crate) fn forget_client(&self, client: ClientId) {
        let mut queues = self.0.lock();
        queues.retain(|_, queue| {
            queue.retain(|waiter| waiter.client != client);
            !queue.is_empty()
        });
    }

    /// The turn of another waiter that conflicts with `asking`, unless `asking` has a turn itself. It is
    /// reported as the conflicting lock.
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

    /// Waiters that get a turn now, in the order of the queue. `is_free`: no lock conflicts with the waiter.
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
    /// Lock that conflicts with `waiter`. None if its holder has lapsed: the next LOCK expires that client.
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

    /// Notifies the waiters of `inode` that can have their locks now, after a lock may have been released.
    pub(crate) fn tell_lock_waiters(&self, inode: InodeId) {
        if !self.lock_waiters.are_any(inode) {
            return; // the usual case
        }
        let Ok(view) = self.machine.view() else { return };
        let is_free = |waiter: &Waiter| matches!(self.conflict_with(&*view, inode, waiter), Ok(None));
        for waiter in self.lock_waiters.next(inode, self.machine.clock.monotonic(), is_free) {
            let Some(op) = self.notice(&*view, inode, &waiter) else { return };
            // Nothing waits for the answer: a waiter that is not reached asks by itself.
            tokio::spawn(self.call_back(waiter.client, op));
        }
    }

    /// Returns the arguments of CB_NOTIFY_LOCK; none if the file was removed.
    fn notice(&self, view: &dyn View, inode: InodeId, waiter: &Waiter) -> Option<CbArgOp> {
        let file = read::inode(view, inode).ok()??;
        let owner = bytes::Bytes::copy_from_slice(&waiter.owner).into();
        let lock_owner = StateOwner { clientid: wire::nfs4::ClientId(waiter.client.0), owner };
        let fh = self.machine.handle(Via::Export(waiter.export), inode, file.generation).into();
        Some(CbArgOp::NotifyLock(NotifyLockArgs { fh, lock_owner }))
    }

    /// Adds `waiter` to the queue, or keeps it there, after a blocking LOCK of `session` was denied. Returns
    /// true if the answer must be DELAY and not DENIED.
    pub(crate) async fn waits_on(&self, session: &Session, inode: InodeId, waiter: Waiter) -> bool {
        let answer = self.lock_waiters.wait(inode, waiter.clone(), session.has_come_within(COMES));
        // The lock may have been released after the denial, while the queue was empty.
        self.tell_lock_waiters(inode);
        if self.machine.replica.is_alone() {
            return session.back.is_down(); // there is no other metaserver to go to
        }
        match answer {
            Answer::Denied => false,
            Answer::Delay => true,
            Answer::Anew => !self.is_told_to_ask(inode, &waiter).await,
        }
    }

    /// Notifies a waiter over its connection to this metaserver, so that it asks again. Returns true if the
    /// client has confirmed the notice.
    async fn is_told_to_ask(&self, inode: InodeId, waiter: &Waiter) -> bool {
        let Some(op) = self.machine.view().ok().and_then(|view| self.notice(&*view, inode, waiter)) else {
            return false;
        };
        // In a task of its own: a cancelled call would lose its slot of the back channel.
        let call = tokio::spawn(self.call_back_here(waiter.client, op));
        let answer = tokio::time::timeout(NOTICE_TIME_MAX, call).await;
        let is_told = matches!(answer, Ok(Ok(Ok(Status::Ok))));
        if is_told {
            self.lock_waiters.begins_anew(inode, waiter.client, &waiter.owner);
        }
        is_told
    }

    /// Wakes the client's waiters that came from another metaserver, now that this one can send callbacks to
    /// the client. They are told to start again when they ask.
    pub(crate) fn wake_lock_waiters(&self, client: ClientId) {
        let who = self.lock_waiters.who_may_pause_for_long(client);
        if who.is_empty() {
            return; // the usual case
        }
        let Ok(view) = self.machine.view() else { return };
        for (inode, waiter) in who {
            if let Some(op) = self.notice(&*view, inode, &waiter) {
                tokio::spawn(self.call_back_here(client, op));
            }
        }
    }

    /// Notifies waiters of all files: a client ended with locks of any file, or turns have ended.
    pub(crate) fn tell_all_lock_waiters(&self) {
        for inode in self.lock_waiters.files() {
            self.tell_lock_waiters(inode);
        }
    }
}

#[cfg(test)]
#[path = "lock_waiters/tests.rs"]
mod tests;
