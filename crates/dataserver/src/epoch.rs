//! Object epochs: the calls that an object still obeys.
//!
//! The state machine raises a file's epoch when something must not happen any more: a client lost its layout,
//! a call got no answer, the file is truncated. Each handle carries the epochs of its minting. The first call
//! with a later one raises the object's:
//!
//! ```text
//! epoch 3   WRITE ───────▶│ refused from here on
//!           WRITE ────▶ ends ┐
//! epoch 4            STAT ───┴▶ alone: mark stored and synced ─▶ its own work ─▶ answer
//! ```
//!
//! So when a call with epoch 4 is answered, no call with epoch 3 is under way, and none will be carried out,
//! also after a crash. The mark is an extended attribute of the object's file: `user.heorot.epoch`.
//!
//! ```text
//! │version 1│incarnation 8│epoch 4│layout epoch 4│truncated 4│chain 8│crc32c 4│   big-endian
//! ```
//!
//! No mark is epoch 0 of any incarnation, without copies. Version 1 has no chain. The epoch is that of the
//! calls of metaservers. The layout epoch is what it was at the last fence: a handle of a layout from before
//! is refused. A truncation has an epoch of its own, which the mark notes: the same call again, also a late
//! one, does nothing.
//!
//! MAKE stores the mark. Each file's epoch begins with 1: an object without a mark, or one of epoch 0, was made by a
//! truncation to length 0, by an earlier version, or for a group of metaservers that was restored since.
//!
//! An object without copies gets a chain by the first call whose handle names one: its mark notes it. Calls whose
//! handles name none are refused from then on: other members may have the object, or have it alone by now. An empty
//! column may move between two chains that share a target: of calls with these epochs or later ones, the last one says
//! the chain. Each placement of columns raises the epoch, so that no call from before it is obeyed after it, and a MAKE of a
//! later placement finds no data that count.

use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use wire::handle::{Holder, ObjectHandle};

use crate::object::ObjectName;
use crate::objects::ObjectError;

/// Name of the extended attribute.
pub(crate) const ATTRIBUTE: &str = "user.heorot.epoch";
/// Length of the attribute in bytes.
pub(crate) const MARK_BYTES: usize = 33;
const VERSION: u8 = 2;
/// Version and length of a mark without a chain.
const WITHOUT_CHAIN: (u8, usize) = (1, 25);

/// Epochs of a handle, and its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epoch {
    /// Incarnation of the metaservers: see [`ObjectHandle::incarnation`].
    pub incarnation: u64,
    /// Chain of the handle; 0: of an object without copies.
    pub chain: u64,
    /// What the handle is for.
    pub call: CallEpoch,
}

/// Epoch of a call, by its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEpoch {
    /// A client with a layout of this epoch.
    Layout(u32),
    /// A server: the file's epoch, and that of its last fence.
    Server(u32, u32),
}

impl Epoch {
    /// True if a server's call with this epoch is from before the one with epoch `other`, of the same incarnation.
    pub(crate) fn is_before(self, other: Epoch) -> bool {
        let (CallEpoch::Server(number, _), CallEpoch::Server(later, _)) = (self.call, other.call) else {
            return false;
        };
        self.incarnation == other.incarnation && is_later(later, number)
    }
}

/// An object as a handle names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectRef {
    /// Its name.
    pub name: ObjectName,
    /// Epochs of the handle.
    pub epoch: Epoch,
}

impl ObjectRef {
    /// The object of an opened handle.
    #[must_use]
    pub fn new(handle: &ObjectHandle, holder: Holder) -> Self {
        let call = match holder {
            Holder::Reader | Holder::Writer => CallEpoch::Layout(handle.layout_epoch),
            Holder::Server => CallEpoch::Server(handle.epoch, handle.layout_epoch),
        };
        let chain = if handle.has_copies() { handle.chain } else { 0 };
        let epoch = Epoch { incarnation: handle.incarnation, chain, call };
        Self { name: handle.into(), epoch }
    }
}

/// True if the number `a` is later than `b`: numbers wrap (RFC 1982).
fn is_later(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

fn later(a: u32, b: u32) -> u32 {
    if is_later(a, b) { a } else { b }
}

/// What an object's file says durably.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Mark {
    /// Incarnation of the numbers; 0: none yet.
    pub incarnation: u64,
    /// Highest epoch of a call.
    pub epoch: u32,
    /// Highest epoch of a fence.
    pub layout_epoch: u32,
    /// Epoch of the last truncation; 0: none.
    pub truncated: u32,
    /// Chain of the object; 0: it has no copies.
    pub chain: u64,
}

impl Mark {
    /// The mark after a call with this epoch: the same one, if it is the object's. None: the epoch is past, or the
    /// object is on a chain, and the handle names none. A restored group counts from where its backup was, and is later
    /// than all before; it says which chain the object has.
    pub fn after(self, epoch: Epoch) -> Option<Self> {
        let Epoch { incarnation, chain, call } = epoch;
        if self.incarnation != 0 && self.incarnation != incarnation {
            return Self { incarnation, chain, ..Self::default() }.after(epoch);
        }
        if self.chain != 0 && chain == 0 {
            return None;
        }
        let raised = match call {
            CallEpoch::Layout(fence) if is_later(self.layout_epoch, fence) => return None,
            CallEpoch::Server(number, _) if is_later(self.epoch, number) => return None,
            CallEpoch::Layout(fence) => Self { layout_epoch: fence, epoch: later(fence, self.epoch), ..self },
            CallEpoch::Server(number, fence) => {
                Self { epoch: number, layout_epoch: later(fence, self.layout_epoch), ..self }
            }
        };
        let epochs = |mark: Self| (mark.epoch, mark.layout_epoch);
        let is_same = epochs(raised) == epochs(self) && chain == self.chain;
        Some(if is_same { self } else { Self { incarnation, chain, ..raised } })
    }

    /// What a MAKE with this epoch does with an object of this mark. Each placement of a file's columns has a later
    /// epoch than the ones before, so a MAKE of an earlier placement moves nothing, and of a later one finds no data
    /// that count. The move of an empty column is refused by the state machine after its MAKE, at times; then the
    /// column goes on where it was, with the same epoch.
    pub fn after_make(self, epoch: Epoch) -> Placement {
        // It has just been made, or an earlier version made it.
        let is_new = (self.incarnation, self.chain) == (0, 0);
        let is_of_other = self.chain != 0 && self.chain != epoch.chain;
        let has_epochs = |new: Self| {
            let counts_on = self.incarnation == 0 || self.incarnation == new.incarnation;
            counts_on && (new.epoch, new.layout_epoch) == (self.epoch, self.layout_epoch)
        };
        match self.after(epoch) {
            None if self.chain == epoch.chain => Placement::Stays(self),
            // It comes back to this target alone.
            None if epoch.chain == 0 => match (Self { chain: 0, ..self }).after(epoch) {
                Some(new) if !has_epochs(new) => Placement::Anew(new),
                _ => Placement::Past,
            },
            None => Placement::Past,
            Some(new) if is_new => {
                Placement::Stays(Self { incarnation: epoch.incarnation, chain: epoch.chain, ..new })
            }
            Some(new) => {
                let moved = Self { chain: epoch.chain, ..self };
                match (has_epochs(new), is_of_other) {
                    (true, false) => Placement::Stays(moved),
                    (true, true) => Placement::IfEmpty(moved),
                    (false, _) => Placement::Anew(new),
                }
            }
        }
    }

    /// True if no call with the epoch of `bound` or a later one has come to an object with this mark.
    pub fn is_before(self, bound: Epoch) -> bool {
        let CallEpoch::Server(number, _) = bound.call else { return false };
        self.incarnation != bound.incarnation && self.incarnation != 0 || is_later(number, self.epoch)
    }

    /// This mark, of the epoch of a truncation, after that truncation; none: it was done.
    pub fn truncated_at(self, epoch: Epoch) -> Option<Self> {
        let CallEpoch::Server(number, _) = epoch.call else { return Some(self) };
        let is_done = number != 0 && (self.incarnation, self.truncated) == (epoch.incarnation, number);
        let noted = if number == 0 { self } else { Self { truncated: number, ..self } };
        (!is_done).then_some(noted)
    }

    /// What a member that is refilled does with an object of this mark when the head of `epoch`'s chain has one with that
    /// epoch; none: it is of this chain, or no epochs tell what it is.
    pub fn beside_head(self, epoch: Epoch) -> Option<Placement> {
        let is_told = self.chain != epoch.chain && self.incarnation == epoch.incarnation;
        is_told.then(|| self.after_make(epoch))
    }

    fn has_epochs_of(self, other: Self) -> bool {
        let epochs = |mark: Self| (mark.incarnation, mark.epoch, mark.layout_epoch, mark.chain);
        epochs(self) == epochs(other)
    }

    pub fn to_bytes(self) -> [u8; MARK_BYTES] {
        let mut bytes = [0; MARK_BYTES];
        bytes[0] = VERSION;
        bytes[1..9].copy_from_slice(&self.incarnation.to_be_bytes());
        bytes[9..13].copy_from_slice(&self.epoch.to_be_bytes());
        bytes[13..17].copy_from_slice(&self.layout_epoch.to_be_bytes());
        bytes[17..21].copy_from_slice(&self.truncated.to_be_bytes());
        bytes[21..29].copy_from_slice(&self.chain.to_be_bytes());
        let sum = crc32c::crc32c(&bytes[..29]);
        bytes[29..].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    /// The mark in these bytes; none: they are damaged, or of a later version.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (body, sum) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
        if sum != crc32c::crc32c(body).to_be_bytes() {
            return None;
        }
        let number = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
        let long = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes);
        let chain = match (*bytes.first()?, bytes.len()) {
            WITHOUT_CHAIN => 0,
            (VERSION, MARK_BYTES) => long(21)?,
            _ => return None,
        };
        let (incarnation, epoch, layout_epoch, truncated) = (long(1)?, number(9)?, number(13)?, number(17)?);
        Some(Self { incarnation, epoch, layout_epoch, truncated, chain })
    }
}

/// Outcome of [`Mark::after_make`], with the mark of the object then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placement {
    /// The call is from before the object came to its chain, or from before calls without one.
    Past,
    /// The object stays as it is.
    Stays(Mark),
    /// It moves from another chain if it has no data; else the call is from before it got them.
    IfEmpty(Mark),
    /// It is emptied first: its data are of an earlier placement.
    Anew(Mark),
}

/// Outcome of [`EpochGate::enter`].
pub(crate) enum Entry<'a> {
    /// The call may go on, and is counted until this is dropped.
    Entered(RwLockReadGuard<'a, ()>),
    /// Its epoch is past, or the object was removed: see [`EpochGate::close`].
    Stale,
    /// Its epoch is later than the object's: [`EpochGate::alone`] raises it.
    Later,
}

/// The epochs of an open object, and the calls under way.
#[derive(Debug)]
pub(crate) struct EpochGate {
    state: Mutex<State>,
    /// Held shared by each call, and alone by a raise.
    calls: RwLock<()>,
}

#[derive(Debug)]
struct State {
    /// Mark of a raise that has begun: earlier calls do not begin any more. After one that failed it is later than the
    /// stored one.
    announced: Mark,
    stored: Mark,
    /// Raises under way. Other calls wait for them, so that they find a time without calls.
    raises: usize,
    /// True after [`EpochGate::close`].
    is_closed: bool,
}

impl State {
    /// True if the stored mark has the epoch of a call.
    fn has(&self, epoch: Epoch) -> bool {
        let is_raised = self.announced.has_epochs_of(self.stored);
        is_raised || (self.raises == 0 && self.stored.after(epoch) == Some(self.stored))
    }
}

/// A raise under way.
struct Raise<'a>(&'a EpochGate);

impl<'a> Raise<'a> {
    fn begin(gate: &'a EpochGate) -> Self {
        gate.state.lock().raises += 1;
        Self(gate)
    }
}

impl Drop for Raise<'_> {
    fn drop(&mut self) {
        self.0.state.lock().raises -= 1;
    }
}

impl EpochGate {
    pub fn new(mark: Mark) -> Self {
        let state = State { announced: mark, stored: mark, raises: 0, is_closed: false };
        Self { state: Mutex::new(state), calls: RwLock::new(()) }
    }

    /// Lets a call with this epoch begin.
    pub fn enter(&self, epoch: Epoch) -> Entry<'_> {
        // Recursive: one that waits behind a waiting raise could hold a call that a copy between two objects
        // waits for.
        let call = self.calls.read_recursive();
        let state = self.state.lock();
        match state.announced.after(epoch) {
            _ if state.is_closed => Entry::Stale,
            None => Entry::Stale,
            Some(mark) if mark == state.announced && state.has(epoch) => Entry::Entered(call),
            Some(_) => Entry::Later,
        }
    }

    /// [`EpochGate::enter`] without waiting. None: the call may not begin, or not yet.
    pub fn enter_now(&self, epoch: Epoch) -> Option<RwLockReadGuard<'_, ()>> {
        let call = self.calls.try_read_recursive()?;
        let state = self.state.lock();
        let has_epoch = state.announced.after(epoch) == Some(state.announced) && state.has(epoch);
        (has_epoch && !state.is_closed).then_some(call)
    }

    /// The stored mark.
    pub fn mark(&self) -> Mark {
        self.state.lock().stored
    }

    /// Replaces the mark by the one that `work` has stored, when all calls under way have ended.
    ///
    /// # Errors
    /// `Busy` if the object was removed meanwhile, so that the next attempt makes another one; that of the work.
    pub fn replace(&self, work: impl FnOnce(Mark) -> Result<Mark, ObjectError>) -> Result<(), ObjectError> {
        let _alone = self.calls.write();
        if self.state.lock().is_closed {
            return Err(ObjectError::Busy);
        }
        let stored = self.mark();
        let mark = work(stored)?;
        let mut state = self.state.lock();
        (state.announced, state.stored) = (mark, mark);
        Ok(())
    }

    /// Does `work` with the stored mark, when all calls under way have ended. No call goes on afterwards if it returns
    /// true: it has removed the object.
    ///
    /// # Errors
    /// That of the work.
    pub fn close(&self, work: impl FnOnce(Mark) -> Result<bool, ObjectError>) -> Result<(), ObjectError> {
        let _alone = self.calls.write();
        if self.state.lock().is_closed {
            return Ok(());
        }
        let is_removed = work(self.mark())?;
        self.state.lock().is_closed = is_removed;
        Ok(())
    }

    /// Does `work` with the stored mark and the one after this epoch, when all earlier calls have ended. It
    /// returns the mark that it has stored.
    ///
    /// # Errors
    /// [`ObjectError::StaleEpoch`], or that of the work. Earlier calls stay refused.
    pub fn alone(
        &self,
        epoch: Epoch,
        work: impl FnOnce(Mark, Mark) -> Result<Mark, ObjectError>,
    ) -> Result<(), ObjectError> {
        let announce = || {
            let mut state = self.state.lock();
            if state.is_closed {
                return Err(ObjectError::StaleEpoch);
            }
            state.announced = state.announced.after(epoch).ok_or(ObjectError::StaleEpoch)?;
            let mark = state.stored.after(epoch).ok_or(ObjectError::StaleEpoch)?;
            Ok((state.stored, mark))
        };
        let (stored, mark) = announce()?;
        // One that finds the epoch stored waits for those under way, and changes nothing.
        let raise = (stored != mark).then(|| Raise::begin(self));
        let _alone = self.calls.write();
        // It ends before other calls go on.
        let _raise = raise;
        let (stored, mark) = announce()?;
        self.state.lock().stored = work(stored, mark)?;
        Ok(())
    }
}

#[cfg(test)]
#[path = "epoch/tests.rs"]
mod tests;
