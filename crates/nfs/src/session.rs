//! Sessions as far as one server keeps them: the slots of the fore channel with the replies they hold (RFC 8881,
//! section 2.10.6), and the back channel.
//!
//! What a session *is* (its client and its limits) is in the replicated state; this is what one server remembers of
//! the requests that came to it. A server that meets a session which it never served adopts it: its slots are unknown,
//! and take the sequence that the client presents. Whether a changing operation was done before is then known to the
//! state machine.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

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

/// Replies up to this size are kept even if the client did not ask: a repetition is then answered, not refused.
const KEPT_BYTES: usize = 1024;

/// What a repetition has in common with its request: another request under the same sequence is a false retry (RFC 8881,
/// section 2.10.6.1.3.1), which must not be answered with what another one was told, perhaps another user. Not every
/// false retry is found: bytes are counted, not compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Likeness {
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
    likeness: Likeness,
    busy: bool,
    reply: Option<Message>,
}

/// A session on this server.
pub struct Session {
    id: SessionId,
    client: u64,
    limits: SessionLimits,
    slots: Vec<Mutex<Slot>>,
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
    /// A session that was just made (`adopted` false: the first sequence is 1), or one that another server, or an
    /// earlier life of this one, has served.
    #[must_use]
    pub fn new(id: SessionId, client: u64, limits: SessionLimits, back: Backchannel, adopted: bool) -> Self {
        let slot = || Slot { sequence: (!adopted).then_some(0), ..Slot::default() };
        Self {
            id,
            client,
            limits,
            slots: (0..limits.slots).map(|_| Mutex::new(slot())).collect(),
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

    /// A request arrives on a slot. `alone`: no other server serves the session. Else a client may have connections to
    /// several of them (session trunking), and what lies between the last sequence here and this one went to others. The
    /// client had its answers, or would not have gone on, so that a request that is still busy here is waited for by nobody.
    ///
    /// # Errors
    /// The status that SEQUENCE answers (RFC 8881, section 2.10.6.1.3 and 18.46.3).
    pub fn begin(
        &self,
        slot: u32,
        sequence: u32,
        likeness: Likeness,
        alone: bool,
    ) -> Result<SlotAnswer, Status> {
        let slot = self.slots.get(slot as usize).ok_or(Status::BadSlot)?;
        let mut slot = slot.lock().map_err(|_| Status::ServerFault)?;
        match slot.sequence {
            Some(last) if sequence == last => {
                if slot.busy {
                    return Err(Status::Delay);
                }
                match &slot.reply {
                    _ if last != 0 && slot.likeness != likeness => Err(Status::SeqFalseRetry),
                    Some(reply) => Ok(SlotAnswer::Replay(reply.clone())),
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
                *slot = Slot { sequence: Some(sequence), likeness, busy: true, reply: None };
                Ok(SlotAnswer::Execute)
            }
        }
    }

    /// The session comes over another connection, and another server may have served it meanwhile: what comes next on each
    /// slot is taken as it comes, as for a session that was just adopted.
    pub fn comes_from_elsewhere(&self) {
        if let Ok(mut came) = self.came.lock() {
            *came = Some(Instant::now());
        }
        for slot in &self.slots {
            if let Ok(mut slot) = slot.lock() {
                *slot = Slot::default();
            }
        }
    }

    /// Whether the session may have been with another server, or with an earlier life of this one, so short a time ago.
    #[must_use]
    pub fn has_come_within(&self, time: Duration) -> bool {
        self.came.lock().is_ok_and(|came| came.is_some_and(|came| came.elapsed() < time))
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
        let Some(slot) = self.slots.get(slot as usize) else { return };
        if let Ok(mut slot) = slot.lock()
            && slot.sequence == Some(sequence)
        {
            slot.busy = false;
            if keep || reply.len <= KEPT_BYTES {
                slot.reply = Some(reply.clone());
            }
        }
    }

    /// The request on `slot` came to no end: its task was dropped. A repetition is carried out.
    pub fn abandon(&self, slot: u32, sequence: u32) {
        let Some(slot) = self.slots.get(slot as usize) else { return };
        if let Ok(mut slot) = slot.lock()
            && slot.busy
            && slot.sequence == Some(sequence)
        {
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
        let (session, like) = (session(), Likeness::default());
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
        let (session, like) = (session(), Likeness::default());
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
}
