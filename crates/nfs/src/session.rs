//! Sessions in the memory of one server: each session slot of the fore channel with its kept reply (the
//! replay cache of RFC 8881, section 2.10.6), and the back channel.
//!
//! The session record (client and limits) is in the replicated state; this module has the requests that came
//! to this server. A server that meets an unknown session adopts it: its slots are unknown, and take the
//! sequence that the client presents. The replay look-up in the state machine then tells whether a modifying
//! operation was executed before.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use wire::nfs4::{SessionId, Status};
use wire::xdr::Message;

use crate::Backchannel;
use crate::limits::HELD_CALLS_MAX;

/// Limits of the fore channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimits {
    /// Longest request, in bytes.
    pub request_bytes_max: u32,
    /// Longest reply, in bytes.
    pub response_bytes_max: u32,
    /// Longest reply that a slot keeps, in bytes.
    pub cached_bytes_max: u32,
    /// Operations in a compound.
    pub operations_max: u32,
    /// Slots.
    pub slots: u32,
}

/// Replies up to this size are kept even without `cachethis`: a retry gets the reply, not an error.
const KEPT_BYTES: usize = 1024;
/// Bytes of kept replies, of all sessions of this process and of one session: 64 slots with the 7.5 KiB that
/// Linux asks for, and about 500 such sessions in full use. A reply without room is not kept, and its slot
/// becomes unknown: a retry is executed, as at a server that adopts the session. The state machine knows
/// earlier changes, and operations of a data server can be executed twice.
const KEPT_BYTES_MAX: usize = 256 << 20;
const KEPT_OF_SESSION_BYTES_MAX: usize = 1 << 20;

static KEPT: AtomicUsize = AtomicUsize::new(0);

/// Fingerprint of a request, for the false retry check (RFC 8881, section 2.10.6.1.3.1): a different request
/// with the same sequence must not get the reply of another one, perhaps of another user. The check is not
/// complete: bytes are counted, not compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestFingerprint {
    /// AUTH_SYS uid.
    pub uid: Option<u32>,
    /// True if the client asked to keep the reply (`cachethis`).
    pub keep: bool,
    /// Number of operations.
    pub operations: u32,
    /// Lower bound of the request's length in bytes.
    pub bytes: usize,
}

/// State of a slot.
#[derive(Debug, Default)]
struct Slot {
    /// Last sequence; none: the slot is unknown here and takes any sequence.
    sequence: Option<u32>,
    /// Last sequence of a slot that is unknown since its reply was not kept.
    not_kept: Option<u32>,
    /// Number of the attempt at the last request: two may be under way, after the client was elsewhere.
    attempt: u64,
    /// Fingerprint of the last request.
    fingerprint: RequestFingerprint,
    busy: bool,
    reply: Option<Kept>,
}

/// Kept reply, with the counter of its session.
#[derive(Debug)]
struct Kept {
    reply: Message,
    of_session: Arc<AtomicUsize>,
}

impl Kept {
    /// Keeps a reply. None: no room.
    fn new(reply: &Message, of_session: &Arc<AtomicUsize>) -> Option<Self> {
        let kept = Self { reply: reply.clone(), of_session: Arc::clone(of_session) };
        let session = of_session.fetch_add(reply.len, Ordering::Relaxed) + reply.len;
        let all = KEPT.fetch_add(reply.len, Ordering::Relaxed) + reply.len;
        (session <= KEPT_OF_SESSION_BYTES_MAX && all <= KEPT_BYTES_MAX).then_some(kept)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.of_session.fetch_sub(self.reply.len, Ordering::Relaxed);
        KEPT.fetch_sub(self.reply.len, Ordering::Relaxed);
    }
}

/// Session on this server.
pub struct Session {
    id: SessionId,
    client: u64,
    limits: SessionLimits,
    /// Slots, made at first use: most clients use few.
    slots: Box<[OnceLock<Box<Mutex<Slot>>>]>,
    /// True if an unused slot begins with sequence 1; if false, its sequence is unknown.
    is_new: AtomicBool,
    kept_bytes: Arc<AtomicUsize>,
    /// Requests that were executed.
    attempts: AtomicU64,
    /// Time of the last migration. See [`Session::has_come_within`].
    came: Mutex<Option<Instant>>,
    /// Time of the last request before which others of its slot went elsewhere.
    shared: Mutex<Option<Instant>>,
    /// See [`Session::set_checked`].
    checked: AtomicU64,
    held_calls: Arc<Semaphore>,
    /// Back channel.
    pub back: Arc<Backchannel>,
}

/// Decision about a request.
#[derive(Debug)]
pub enum SlotAnswer {
    /// New request: execute it, then [`Session::finish`].
    Execute {
        /// True if the request may have been sent to another server before, or if another attempt at it may be under way
        /// here: this server does not know the slot.
        may_be_elsewhere: bool,
        /// Number of this attempt, for [`Session::finish`].
        attempt: u64,
    },
    /// Retry: send this kept reply.
    Replay(Message),
}

impl Session {
    /// Session that was just made (`adopted` false: the first sequence is 1), or one that another server, or
    /// an earlier process of this one, has served.
    #[must_use]
    pub fn new(id: SessionId, client: u64, limits: SessionLimits, back: Backchannel, adopted: bool) -> Self {
        Self {
            id,
            client,
            limits,
            slots: (0..limits.slots).map(|_| OnceLock::new()).collect(),
            is_new: AtomicBool::new(!adopted),
            kept_bytes: Arc::default(),
            attempts: AtomicU64::default(),
            came: Mutex::default(),
            shared: Mutex::default(),
            checked: AtomicU64::new(u64::MAX),
            held_calls: Arc::new(Semaphore::new(HELD_CALLS_MAX.min(limits.slots as usize / 2))),
            back: Arc::new(back),
        }
    }

    /// Id of the session.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Places for calls that wait for another server: a part of the slots.
    #[must_use]
    pub fn held_calls(&self) -> &Arc<Semaphore> {
        &self.held_calls
    }

    /// Client id of the session.
    #[must_use]
    pub fn client(&self) -> u64 {
        self.client
    }

    /// Limits of the fore channel.
    #[must_use]
    pub fn limits(&self) -> &SessionLimits {
        &self.limits
    }

    /// Begins a request on a slot. `alone`: no other server serves the session. Otherwise the client may have
    /// connections to several servers (session trunking), and sequences between the last one here and this
    /// one went to others. The client got those replies, so it no longer waits for a request that is still
    /// busy here.
    ///
    /// # Errors
    /// The status of SEQUENCE (RFC 8881, sections 2.10.6.1.3 and 18.46.3).
    pub fn begin(
        &self,
        slot: u32,
        sequence: u32,
        fingerprint: RequestFingerprint,
        alone: bool,
    ) -> Result<SlotAnswer, Status> {
        let mut slot = self.slot(slot).ok_or(Status::BadSlot)?.lock();
        match slot.sequence {
            Some(last) if sequence == last => {
                if slot.busy {
                    return Err(Status::Delay);
                }
                match &slot.reply {
                    _ if last != 0 && slot.fingerprint != fingerprint => Err(Status::SeqFalseRetry),
                    Some(kept) => Ok(SlotAnswer::Replay(kept.reply.clone())),
                    // Sequence 0 of a new slot cannot be a retry.
                    None if last == 0 => Err(Status::SeqMisordered),
                    None => Err(Status::RetryUncachedRep),
                }
            }
            // Serial number arithmetic: sequences wrap.
            Some(last) if !alone && (sequence.wrapping_sub(last) as i32) < 0 => Err(Status::SeqMisordered),
            Some(last) if alone && (slot.busy || sequence != last.wrapping_add(1)) => {
                Err(Status::SeqMisordered)
            }
            _ => {
                let is_next = slot.not_kept.is_some_and(|last| sequence == last.wrapping_add(1));
                let may_be_elsewhere = slot.sequence.is_none() && !is_next;
                if slot.sequence.is_some_and(|last| sequence != last.wrapping_add(1)) {
                    *self.shared.lock() = Some(Instant::now());
                }
                let attempt = self.attempts.fetch_add(1, Ordering::Relaxed) + 1;
                let sequence = Some(sequence);
                *slot = Slot { sequence, fingerprint, busy: true, attempt, ..Slot::default() };
                Ok(SlotAnswer::Execute { may_be_elsewhere, attempt })
            }
        }
    }

    /// Makes all slots unknown: the session migrated to another connection, and another server may have
    /// served it meanwhile. Each slot takes the next sequence that the client presents, as after an adoption.
    pub fn comes_from_elsewhere(&self) {
        *self.came.lock() = Some(Instant::now());
        self.is_new.store(false, Ordering::Relaxed);
        for slot in self.slots.iter().filter_map(OnceLock::get) {
            *slot.lock() = Slot::default();
        }
    }

    fn slot(&self, slot: u32) -> Option<&Mutex<Slot>> {
        let place = self.slots.get(slot as usize)?;
        let begins = || {
            let sequence = self.is_new.load(Ordering::Relaxed).then_some(0);
            Box::new(Mutex::new(Slot { sequence, ..Slot::default() }))
        };
        Some(place.get_or_init(begins))
    }

    /// True if the client has used a slot at another server within `time`, by the sequences that are missing here.
    #[must_use]
    pub fn is_shared_within(&self, time: Duration) -> bool {
        self.shared.lock().is_some_and(|at| at.elapsed() < time)
    }

    /// True if the session migrated here within `time`.
    #[must_use]
    pub fn has_come_within(&self, time: Duration) -> bool {
        self.came.lock().is_some_and(|came| came.elapsed() < time)
    }

    /// Records that the replicated state had the session at time `at`.
    pub fn set_checked(&self, at: u64) {
        self.checked.store(at, Ordering::Relaxed);
    }

    /// True if the replicated state was checked at `at`.
    #[must_use]
    pub fn is_checked(&self, at: u64) -> bool {
        self.checked.load(Ordering::Relaxed) == at
    }

    /// Ends an attempt at the request on `slot` with `reply`, unless another one has begun since.
    pub fn finish(&self, slot: u32, attempt: u64, reply: &Message, keep: bool) {
        let Some(slot) = self.slot(slot) else { return };
        let mut slot = slot.lock();
        if slot.attempt != attempt {
            return;
        }
        slot.busy = false;
        if keep || reply.len <= KEPT_BYTES {
            slot.reply = Kept::new(reply, &self.kept_bytes);
            if slot.reply.is_none() {
                *slot = Slot { not_kept: slot.sequence, ..Slot::default() };
            }
        }
    }

    /// Ends the request on `slot` without a reply: its task was dropped. A retry is executed.
    pub fn abandon(&self, slot: u32, attempt: u64) {
        let Some(slot) = self.slot(slot) else { return };
        let mut slot = slot.lock();
        if slot.busy && slot.attempt == attempt {
            *slot = Slot::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::rpc::Credential;

    use super::*;

    fn session() -> Session {
        let limits = SessionLimits {
            request_bytes_max: 1 << 20,
            response_bytes_max: 1 << 20,
            cached_bytes_max: 4096,
            operations_max: 16,
            slots: 2,
        };
        let id = SessionId([7; 16]);
        Session::new(id, 1, limits, Backchannel::new(id, 0, Credential::None, 1, false), false)
    }

    #[test]
    fn a_client_that_was_elsewhere_goes_on_with_the_sequence_that_it_has_reached() {
        let (session, like) = (session(), RequestFingerprint::default());
        let here = |answer| matches!(answer, Ok(SlotAnswer::Execute { may_be_elsewhere: false, .. }));
        assert!(here(session.begin(0, 1, like, true)) && here(session.begin(1, 1, like, true)));
        session.finish(1, 2, &Message::default(), true);
        assert!(matches!(session.begin(1, 50, like, true), Err(Status::SeqMisordered)));
        assert!(!session.has_come_within(Duration::MAX), "it was made here");
        session.comes_from_elsewhere();
        assert!(session.has_come_within(Duration::MAX) && !session.has_come_within(Duration::ZERO));
        let answer = session.begin(1, 50, like, true);
        assert!(matches!(answer, Ok(SlotAnswer::Execute { may_be_elsewhere: true, .. })));
        assert!(
            matches!(session.begin(0, 9, like, true), Ok(SlotAnswer::Execute { .. })),
            "its old request is not waited for"
        );
        session.finish(0, 1, &Message::default(), true);
        session.abandon(0, 1);
        assert!(
            matches!(session.begin(0, 9, like, true), Err(Status::Delay)),
            "and its end is not that of the new one"
        );
    }
    #[test]
    fn a_client_of_several_servers_leaves_out_here_what_it_asked_elsewhere() {
        let (session, like) = (session(), RequestFingerprint::default());
        assert!(matches!(session.begin(0, 1, like, false), Ok(SlotAnswer::Execute { .. })));
        assert!(!session.is_shared_within(Duration::MAX), "the next one came here");
        assert!(matches!(session.begin(0, 3, like, false), Ok(SlotAnswer::Execute { .. })));
        assert!(session.is_shared_within(Duration::MAX));
        // The request is busy here, but the client got its reply elsewhere and continues.
        assert!(matches!(session.begin(0, 3, like, false), Err(Status::Delay)));
        assert!(matches!(session.begin(0, 7, like, false), Ok(SlotAnswer::Execute { .. })));
        session.finish(0, 2, &Message::default(), true);
        assert!(
            matches!(session.begin(0, 7, like, false), Err(Status::Delay)),
            "the old one's end is not its own"
        );
        session.finish(0, 3, &Message::default(), true);
        assert!(matches!(session.begin(0, 7, like, false), Ok(SlotAnswer::Replay(_))));
        assert!(matches!(session.begin(0, 6, like, false), Err(Status::SeqMisordered)), "late by a detour");
        assert!(matches!(session.begin(0, 8, like, true), Ok(SlotAnswer::Execute { .. })));
    }

    #[test]
    fn a_reply_that_has_no_room_is_not_kept_and_its_request_is_carried_out_again() {
        let (session, like) = (session(), RequestFingerprint { keep: true, ..RequestFingerprint::default() });
        let large = Message { len: KEPT_OF_SESSION_BYTES_MAX, segments: vec![] };
        let small = Message { len: 1, segments: vec![] };
        let ask = |slot, sequence, reply: &Message| {
            let answer = session.begin(slot, sequence, like, true);
            let Ok(SlotAnswer::Execute { may_be_elsewhere, attempt }) = answer else { panic!("{answer:?}") };
            session.finish(slot, attempt, reply, true);
            may_be_elsewhere
        };
        assert!(!ask(0, 1, &large) && !ask(1, 1, &small));
        assert!(ask(1, 1, &small), "a retry");
        assert!(!ask(1, 2, &small), "the next one was not sent before");
        assert!(matches!(session.begin(0, 1, like, true), Ok(SlotAnswer::Replay(_))));
        // The next request replaces the kept reply and frees its room.
        assert!(!ask(0, 2, &small) && !ask(1, 3, &small));
        assert!(matches!(session.begin(1, 3, like, true), Ok(SlotAnswer::Replay(_))));
        assert_eq!(session.kept_bytes.load(Ordering::Relaxed), 2);
    }
}
