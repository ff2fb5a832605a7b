//! Sessions as far as one server keeps them: the slots of the fore channel with the replies they hold (RFC
//! 8881, section 2.10.6), and the back channel.
//!
//! What a session *is* (its client and its limits) is in the replicated state; this is what one server
//! remembers of the requests that came to it. A server that meets a session which it never served adopts it:
//! its slots are unknown, and take the sequence that the client presents. Whether a changing operation was
//! done before is then known to the state machine.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use host::Locked;
use tokio::time::Instant;
use wire::nfs4::{SessionId, Status};
use wire::xdr::Message;

use crate::Backchannel;

/// What the fore channel may carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimits {
    /// Longest request, in bytes.
    pub request_bytes_max: u32,
    /// Longest reply, in bytes.
    pub response_bytes_max: u32,
    /// Longest reply that is kept, in bytes.
    pub cached_bytes_max: u32,
    /// Operations in a compound.
    pub operations_max: u32,
    /// Slots.
    pub slots: u32,
}

/// Replies up to this size are kept even if the client did not ask: a repetition is then answered, not
/// refused.
const KEPT_BYTES: usize = 1024;
/// Bytes of the replies that all sessions of this process keep, and those of one: 64 slots with what Linux
/// asks to be kept, 7.5 KiB, and so many sessions in full use as 64 of them. A reply that has no room is not
/// kept, and its slot is as one that was never seen here: a repetition is carried out, as at a server that
/// adopts the session. What it changed before is known to the state machine, and what a data server is asked
/// can be done twice.
const KEPT_BYTES_MAX: usize = 256 << 20;
const KEPT_OF_SESSION_BYTES_MAX: usize = 1 << 20;

static KEPT: AtomicUsize = AtomicUsize::new(0);

/// What a repetition has in common with its request: another request under the same sequence is a false retry
/// (RFC 8881, section 2.10.6.1.3.1), which must not be answered with what another one was told, perhaps
/// another user. Not every false retry is found: bytes are counted, not compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestFingerprint {
    /// The user of AUTH_SYS.
    pub uid: Option<u32>,
    /// Whether the reply was to be kept.
    pub keep: bool,
    /// Operations.
    pub operations: u32,
    /// Bytes of the arguments.
    pub bytes: usize,
}

/// What a slot remembers.
#[derive(Debug, Default)]
struct Slot {
    /// The last sequence; none: never seen here, so whatever comes is next.
    sequence: Option<u32>,
    /// What the last request was, as far as it is looked at.
    fingerprint: RequestFingerprint,
    busy: bool,
    reply: Option<Kept>,
}

/// A reply with the room that it takes.
#[derive(Debug)]
struct Kept {
    reply: Message,
    of_session: Arc<AtomicUsize>,
}

impl Kept {
    /// None: there is no room.
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

/// A session on this server.
pub struct Session {
    id: SessionId,
    client: u64,
    limits: SessionLimits,
    /// Made when they are first used: few are.
    slots: Box<[OnceLock<Box<Mutex<Slot>>>]>,
    /// A slot that was not used begins with the first sequence.
    is_new: AtomicBool,
    kept_bytes: Arc<AtomicUsize>,
    /// See [`Session::has_come_within`].
    came: Mutex<Option<Instant>>,
    /// See [`Session::set_checked`].
    checked: AtomicU64,
    /// Calls to the client.
    pub back: Arc<Backchannel>,
}

/// What to do with a request.
#[derive(Debug)]
pub enum SlotAnswer {
    /// New: carry it out, then [`Session::finish`].
    Execute,
    /// A repetition: send this.
    Replay(Message),
}

impl Session {
    /// A session that was just made (`adopted` false: the first sequence is 1), or one that another server,
    /// or an earlier life of this one, has served.
    #[must_use]
    pub fn new(id: SessionId, client: u64, limits: SessionLimits, back: Backchannel, adopted: bool) -> Self {
        Self {
            id,
            client,
            limits,
            slots: (0..limits.slots).map(|_| OnceLock::new()).collect(),
            is_new: AtomicBool::new(!adopted),
            kept_bytes: Arc::default(),
            came: Mutex::default(),
            checked: AtomicU64::new(u64::MAX),
            back: Arc::new(back),
        }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// The client it belongs to.
    #[must_use]
    pub fn client(&self) -> u64 {
        self.client
    }

    /// Its limits.
    #[must_use]
    pub fn limits(&self) -> &SessionLimits {
        &self.limits
    }

    /// A request arrives on a slot. `alone`: no other server serves the session. Else a client may have
    /// connections to several of them (session trunking), and what lies between the last sequence here and
    /// this one went to others. The client had its answers, or would not have gone on, so that a request that
    /// is still busy here is waited for by nobody.
    ///
    /// # Errors
    /// The status that SEQUENCE answers (RFC 8881, section 2.10.6.1.3 and 18.46.3).
    pub fn begin(
        &self,
        slot: u32,
        sequence: u32,
        fingerprint: RequestFingerprint,
        alone: bool,
    ) -> Result<SlotAnswer, Status> {
        let mut slot = self.slot(slot).ok_or(Status::BadSlot)?.locked();
        match slot.sequence {
            Some(last) if sequence == last => {
                if slot.busy {
                    return Err(Status::Delay);
                }
                match &slot.reply {
                    _ if last != 0 && slot.fingerprint != fingerprint => Err(Status::SeqFalseRetry),
                    Some(kept) => Ok(SlotAnswer::Replay(kept.reply.clone())),
                    // Sequence 0 of a new slot repeats nothing.
                    None if last == 0 => Err(Status::SeqMisordered),
                    None => Err(Status::RetryUncachedRep),
                }
            }
            // Sequences wrap.
            Some(last) if !alone && (sequence.wrapping_sub(last) as i32) < 0 => Err(Status::SeqMisordered),
            Some(last) if alone && (slot.busy || sequence != last.wrapping_add(1)) => {
                Err(Status::SeqMisordered)
            }
            _ => {
                *slot = Slot { sequence: Some(sequence), fingerprint, busy: true, reply: None };
                Ok(SlotAnswer::Execute)
            }
        }
    }

    /// The session comes over another connection, and another server may have served it meanwhile: what comes
    /// next on each slot is taken as it comes, as for a session that was just adopted.
    pub fn comes_from_elsewhere(&self) {
        *self.came.locked() = Some(Instant::now());
        self.is_new.store(false, Ordering::Relaxed);
        for slot in self.slots.iter().filter_map(OnceLock::get) {
            *slot.locked() = Slot::default();
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

    /// Whether the session may have been with another server, or with an earlier life of this one, so short a
    /// time ago.
    #[must_use]
    pub fn has_come_within(&self, time: Duration) -> bool {
        self.came.locked().is_some_and(|came| came.elapsed() < time)
    }

    /// The session was found in the replicated state, at the time that the server calls `at`.
    pub fn set_checked(&self, at: u64) {
        self.checked.store(at, Ordering::Relaxed);
    }

    /// Whether that was at `at`.
    #[must_use]
    pub fn is_checked(&self, at: u64) -> bool {
        self.checked.load(Ordering::Relaxed) == at
    }

    /// The request on `slot` is answered with `reply`.
    pub fn finish(&self, slot: u32, sequence: u32, reply: &Message, keep: bool) {
        let Some(slot) = self.slot(slot) else { return };
        let mut slot = slot.locked();
        if slot.sequence != Some(sequence) {
            return;
        }
        slot.busy = false;
        if keep || reply.len <= KEPT_BYTES {
            slot.reply = Kept::new(reply, &self.kept_bytes);
            if slot.reply.is_none() {
                *slot = Slot::default();
            }
        }
    }

    /// The request on `slot` came to no end: its task was dropped. A repetition is carried out.
    pub fn abandon(&self, slot: u32, sequence: u32) {
        let Some(slot) = self.slot(slot) else { return };
        let mut slot = slot.locked();
        if slot.busy && slot.sequence == Some(sequence) {
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
        assert!(matches!(session.begin(0, 1, like, true), Ok(SlotAnswer::Execute)));
        assert!(matches!(session.begin(1, 1, like, true), Ok(SlotAnswer::Execute)));
        session.finish(1, 1, &Message::default(), true);
        assert!(matches!(session.begin(1, 50, like, true), Err(Status::SeqMisordered)));
        assert!(!session.has_come_within(Duration::MAX), "it was made here");
        session.comes_from_elsewhere();
        assert!(session.has_come_within(Duration::MAX) && !session.has_come_within(Duration::ZERO));
        assert!(matches!(session.begin(1, 50, like, true), Ok(SlotAnswer::Execute)));
        assert!(
            matches!(session.begin(0, 9, like, true), Ok(SlotAnswer::Execute)),
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
        assert!(matches!(session.begin(0, 3, like, false), Ok(SlotAnswer::Execute)));
        // Not answered yet, and answered elsewhere: the client goes on.
        assert!(matches!(session.begin(0, 3, like, false), Err(Status::Delay)));
        assert!(matches!(session.begin(0, 7, like, false), Ok(SlotAnswer::Execute)));
        session.finish(0, 3, &Message::default(), true);
        assert!(
            matches!(session.begin(0, 7, like, false), Err(Status::Delay)),
            "the old one's end is not its own"
        );
        session.finish(0, 7, &Message::default(), true);
        assert!(matches!(session.begin(0, 7, like, false), Ok(SlotAnswer::Replay(_))));
        assert!(matches!(session.begin(0, 6, like, false), Err(Status::SeqMisordered)), "late by a detour");
        assert!(matches!(session.begin(0, 8, like, true), Ok(SlotAnswer::Execute)));
    }

    #[test]
    fn a_reply_that_has_no_room_is_not_kept_and_its_request_is_carried_out_again() {
        let (session, like) = (session(), RequestFingerprint { keep: true, ..RequestFingerprint::default() });
        let large = Message { len: KEPT_OF_SESSION_BYTES_MAX, segments: vec![] };
        let small = Message { len: 1, segments: vec![] };
        let ask = |slot, sequence, reply: &Message| {
            assert!(matches!(session.begin(slot, sequence, like, true), Ok(SlotAnswer::Execute)));
            session.finish(slot, sequence, reply, true);
        };
        ask(0, 1, &large);
        ask(1, 1, &small);
        ask(1, 1, &small);
        assert!(matches!(session.begin(0, 1, like, true), Ok(SlotAnswer::Replay(_))));
        // The next request takes the place of the reply, and its room.
        let ask = |slot, sequence, reply: &Message| {
            assert!(matches!(session.begin(slot, sequence, like, true), Ok(SlotAnswer::Execute)));
            session.finish(slot, sequence, reply, true);
        };
        ask(0, 2, &small);
        ask(1, 2, &small);
        assert!(matches!(session.begin(1, 2, like, true), Ok(SlotAnswer::Replay(_))));
        assert_eq!(session.kept_bytes.load(Ordering::Relaxed), 2);
    }
}
