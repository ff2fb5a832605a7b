//! Back channel: calls from a server to its client over a connection that the client made (RFC 8881, section
//! 2.10.3).

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;
use wire::nfs4::callback::{CbArgOp, CbCompound, CbReply, CbResOp, SequenceArgs};
use wire::nfs4::{self, OwnerName, SessionId, Status};
use wire::rpc::Credential;
use wire::xdr::Decode;

use crate::{CallFailure, Connection};

/// Time limit of a callback. A client that misses the limit has no back channel until it binds a connection
/// again.
const CALLBACK_TIME_MAX: Duration = Duration::from_secs(5);
/// Retry interval after DELAY. A client that drains its session answers each CB_SEQUENCE with DELAY; Linux
/// does so while it binds a connection, when many callbacks are due.
const CALL_AGAIN: Duration = Duration::from_millis(50);

/// Failure of a callback, on the way to the client or in the client's answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallbackError {
    /// No connection is bound to the back channel.
    #[error("no back channel")]
    NoConnection,
    /// The call failed.
    #[error(transparent)]
    Call(#[from] CallFailure),
    /// The client answered with an error.
    #[error("client answered {0:?}")]
    Refused(Status),
}

/// The back channel of one session.
///
/// Only the server that sent the last call on a slot knows the slot's sequence. A server that adopts a
/// session takes its slots from the other end than the server that made the session: those slots are usually
/// unused. A slot that the client refuses as misordered was used by another server; this server retires the
/// slot and tries the next one. With no slot left the client must make a new session, and loses all requests
/// in flight.
pub struct Backchannel {
    session: SessionId,
    program: AtomicU32,
    minor_version: AtomicU32,
    credential: Mutex<Credential>,
    connection: Mutex<Weak<Connection>>,
    slots: Mutex<Slots>,
    free: Semaphore,
    broken: AtomicBool,
}

/// Free slots, as a stack: the last freed slot is taken first, so that few slots are in use.
#[derive(Debug)]
struct Slots {
    free: Vec<BackSlot>,
    /// Number of slots that the client did not refuse.
    usable: usize,
}

#[derive(Debug, Clone, Copy)]
struct BackSlot {
    id: u32,
    sequence: u32,
}

/// Slot that carries a call, freed on drop. A call that was given up may have reached the client, so the next
/// call has the next sequence.
struct TakenSlot<'a> {
    back: &'a Backchannel,
    before: BackSlot,
    /// The slot as it is returned to the free slots; none: the slot is retired.
    after: Option<BackSlot>,
    permit: Option<SemaphorePermit<'a>>,
}

impl TakenSlot<'_> {
    /// The slot with the sequence of the call.
    fn next(&self) -> BackSlot {
        BackSlot { sequence: self.before.sequence.wrapping_add(1), ..self.before }
    }

    /// Keeps the sequence: the client did not execute the call on this slot.
    fn was_not_used(&mut self) {
        self.after = Some(self.before);
    }

    /// Retires a slot whose sequence another server advanced. Returns whether a usable slot is left; if not,
    /// the client must make a new session.
    fn leave_alone(mut self) -> bool {
        self.after = None;
        if let Some(permit) = self.permit.take() {
            permit.forget();
        }
        let usable = {
            let mut slots = self.back.slots.lock();
            slots.usable -= 1;
            slots.usable
        };
        if usable == 0 {
            self.back.broken.store(true, Ordering::Relaxed);
            self.back.free.close();
        }
        usable > 0
    }
}

impl Drop for TakenSlot<'_> {
    fn drop(&mut self) {
        // Free the slot before its permit, which is dropped after this function.
        self.back.slots.lock().free.extend(self.after.take());
    }
}

impl Backchannel {
    /// Back channel of `session` to the client's `program`, with `credential`, over `slots` slots (at most
    /// 64). `adopted`: another server, or an earlier process of this one, may have called over this back
    /// channel.
    #[must_use]
    pub fn new(session: SessionId, program: u32, credential: Credential, slots: u32, adopted: bool) -> Self {
        let mut free: Vec<_> = (0..slots.clamp(1, 64)).map(|id| BackSlot { id, sequence: 0 }).collect();
        if !adopted {
            free.reverse();
        }
        Self {
            session,
            program: AtomicU32::new(program),
            minor_version: AtomicU32::new(1),
            credential: Mutex::new(credential),
            connection: Mutex::default(),
            free: Semaphore::new(free.len()),
            slots: Mutex::new(Slots { usable: free.len(), free }),
            broken: AtomicBool::new(false),
        }
    }

    /// Binds the back channel to `connection`.
    pub fn bind(&self, connection: &Arc<Connection>) {
        *self.connection.lock() = Arc::downgrade(connection);
    }

    /// Sets the minor version of the session, which its callbacks use too (RFC 8881, section 19.2.3).
    pub fn set_minor_version(&self, minor: u32) {
        self.minor_version.store(minor, Ordering::Relaxed);
    }

    /// Sets the program and credential of callbacks (BACKCHANNEL_CTL: RFC 8881, section 18.33).
    pub fn set_callback(&self, program: u32, credential: Credential) {
        *self.credential.lock() = credential;
        self.program.store(program, Ordering::Relaxed);
    }

    /// True if the client must bind a connection.
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.connection().is_none()
    }

    /// True if the slots are out of step or the client does not know the session: the client must make a new
    /// session.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// Unbinds `connection`, if it is still the bound one, after a call on it timed out.
    fn unbind(&self, connection: &Arc<Connection>) {
        let mut bound = self.connection.lock();
        if std::ptr::eq(bound.as_ptr(), Arc::as_ptr(connection)) {
            *bound = Weak::new();
        }
    }

    fn connection(&self) -> Option<Arc<Connection>> {
        self.connection.lock().upgrade().filter(|c| c.is_open())
    }

    /// Calls one operation, after CB_SEQUENCE, and returns its result.
    ///
    /// # Errors
    /// [`CallbackError`].
    pub async fn call(&self, op: CbArgOp) -> Result<CbResOp, CallbackError> {
        let (began, mut repeats) = (Instant::now(), false);
        loop {
            let connection = self.connection().ok_or(CallbackError::NoConnection)?;
            let mut taken = self.take_slot().await?;
            let outcome = self.call_on(&connection, taken.next(), op.clone()).await;
            match &outcome {
                Err(CallbackError::Refused(Status::SeqMisordered | Status::BadSlot)) => {
                    if taken.leave_alone() {
                        continue;
                    }
                }
                Err(CallbackError::Refused(Status::Delay)) if began.elapsed() < CALLBACK_TIME_MAX => {
                    taken.was_not_used();
                    drop(taken);
                    tokio::time::sleep(CALL_AGAIN).await;
                    continue;
                }
                Err(CallbackError::Refused(status)) => {
                    if *status == Status::BadSession {
                        self.broken.store(true, Ordering::Relaxed);
                    }
                    taken.was_not_used();
                }
                // The other server's last call had sequence 1, too. The slot is in step now: call once more.
                Ok(result) if result.status() == Status::RetryUncachedRep && !repeats => {
                    repeats = true;
                    continue;
                }
                Err(CallbackError::Call(CallFailure::TimedOut(_))) => self.unbind(&connection),
                Ok(_) | Err(_) => {}
            }
            return outcome;
        }
    }

    async fn take_slot(&self) -> Result<TakenSlot<'_>, CallbackError> {
        let permit = self.free.acquire().await.map_err(|_| CallbackError::NoConnection)?;
        let before = self.slots.lock().free.pop().ok_or(CallbackError::NoConnection)?;
        let after = BackSlot { sequence: before.sequence.wrapping_add(1), ..before };
        Ok(TakenSlot { back: self, before, after: Some(after), permit: Some(permit) })
    }

    async fn call_on(
        &self,
        connection: &Connection,
        slot: BackSlot,
        op: CbArgOp,
    ) -> Result<CbResOp, CallbackError> {
        let sequence = CbArgOp::Sequence(SequenceArgs {
            sessionid: self.session,
            sequenceid: slot.sequence,
            slotid: slot.id,
            highest_slotid: slot.id,
            cachethis: false,
            referring_call_lists: vec![],
        });
        let request = CbCompound {
            tag: OwnerName::default(),
            minor_version: self.minor_version.load(Ordering::Relaxed),
            callback_ident: 0,
            ops: vec![sequence, op],
        };
        let program = self.program.load(Ordering::Relaxed);
        let procedure = (program, nfs4::CB_VERSION, nfs4::CB_PROC_COMPOUND);
        let credential = self.credential.lock().clone();
        let mut answer = connection.call(procedure, credential, &request, CALLBACK_TIME_MAX).await?;
        let reply = CbReply::decode(&mut answer).map_err(|_| CallFailure::Malformed)?;
        reply.ops.into_iter().nth(1).ok_or(CallbackError::Refused(reply.status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_back_that_is_given_up_leaves_its_slot_to_the_next_with_the_next_sequence() {
        let back = Backchannel::new(SessionId([1; 16]), 0, Credential::None, 1, false);
        for sequence in 1..=3 {
            let taken = back.take_slot().await.unwrap();
            assert_eq!((taken.next().id, taken.next().sequence), (0, sequence));
            assert_eq!(back.free.available_permits(), 0);
            // A future that holds the slot drops it so.
            drop(taken);
        }
        let mut taken = back.take_slot().await.unwrap();
        taken.was_not_used();
        drop(taken);
        let taken = back.take_slot().await.unwrap();
        assert_eq!(taken.next().sequence, 4);
        assert!(!taken.leave_alone() && back.is_broken());
        assert!(matches!(back.take_slot().await, Err(CallbackError::NoConnection)));
    }
}
