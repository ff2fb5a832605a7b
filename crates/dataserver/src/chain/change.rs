//! Changes of an object that go along its chain: their range, their work at one member, and the call that
//! carries them to the next.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use wire::data::{Call, Status, allocate, attach, commit, make, punch, remove, stat, truncate, write};
use wire::xdr::Payload;

use super::dirty_log::{DirtyLog, Maker};
use super::locks::WHOLE;
use super::objects::Ready;
use crate::checksums::sums_of_pieces;
use crate::epoch::{Mark, ObjectRef};
use crate::found::Found;
use crate::list::entry;
use crate::object::ObjectName;
use crate::objects::{ObjectError, Objects, end_of};
use crate::ranges::Reserve;

/// Attempts at a change while the process has no files or no memory left, and the pause between them.
const BUSY_ATTEMPTS: u32 = 20;
const BUSY_PAUSE: Duration = Duration::from_millis(100);

/// A change.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    Write {
        offset: u64,
        data: Payload,
        /// [`sums_of_pieces`] of the data; none: they are to be computed by the first member that has the change.
        sums: Arc<[u32]>,
        stable: bool,
    },
    Commit,
    Truncate {
        len: u64,
    },
    Allocate {
        offset: u64,
        len: u64,
    },
    Punch {
        offset: u64,
        len: u64,
    },
    Make,
    /// Makes an empty object begin as another one.
    Attach {
        base: ObjectName,
    },
    Remove,
    /// Raises the object's epoch to that of the handle.
    Raise,
}

impl Change {
    /// Range of the object that the change must have for itself.
    pub(crate) fn range(&self) -> Range<u64> {
        match self {
            Change::Write { offset, data, .. } => *offset..offset.saturating_add(data.len() as u64),
            Change::Punch { offset, len } => *offset..offset.saturating_add(*len),
            // A COMMIT changes no byte: it need not wait, and none waits for it.
            Change::Commit => 0..0,
            Change::Truncate { .. }
            | Change::Allocate { .. }
            | Change::Make
            | Change::Attach { .. }
            | Change::Remove
            | Change::Raise => WHOLE,
        }
    }

    /// Range of the object whose bytes the change may change. Its length and what else is known of it are compared
    /// anyway.
    pub(crate) fn dirty_range(&self) -> Range<u64> {
        match self {
            Change::Write { .. } | Change::Punch { .. } => self.range(),
            Change::Truncate { len } => *len..u64::MAX,
            // It may empty an object of an earlier placement.
            Change::Make | Change::Attach { .. } => WHOLE,
            Change::Allocate { .. } | Change::Commit | Change::Remove | Change::Raise => 0..0,
        }
    }

    /// Bytes of memory that the change holds while it waits.
    pub(crate) fn payload_bytes(&self) -> usize {
        match self {
            Change::Write { data, .. } => data.len(),
            _ => 0,
        }
    }

    /// True if a member does its own work before the next one begins: when the work may be refused although
    /// all is well, or must not be known to a later member only.
    pub(crate) fn is_own_first(&self) -> bool {
        matches!(self, Change::Allocate { .. } | Change::Attach { .. } | Change::Raise)
    }

    /// True if a change that the next member has no room for can be taken back at this one. Others are sent
    /// again until the next member has done them or has left the chain.
    pub(crate) fn can_be_taken_back(&self) -> bool {
        match self {
            Change::Write { .. } | Change::Punch { .. } | Change::Allocate { .. } => true,
            // An empty object is no harm, and the removal is asked for again.
            Change::Make | Change::Remove => true,
            // It is empty again.
            Change::Attach { .. } => true,
            Change::Commit | Change::Truncate { .. } | Change::Raise => false,
        }
    }

    /// Compares the data of a write with its sums, or computes them where there are none.
    ///
    /// # Errors
    /// `WrongSum`.
    pub(super) fn check_sums(&mut self) -> Result<(), Status> {
        let Change::Write { offset, data, sums, .. } = self else { return Ok(()) };
        let own = sums_of_pieces(*offset, data);
        match &**sums {
            [] => *sums = own.into(),
            carried if carried == own => {}
            _ => return Err(Status::WrongSum),
        }
        Ok(())
    }

    /// True if the change gives way to one of the object on another chain, where the two could wait for each other: one
    /// of a placement from before, and one of the present placement, with the same members in another order.
    pub(crate) fn gives_way(&self) -> bool {
        matches!(self, Change::Make | Change::Remove)
    }

    /// The call of the `data` program for this change.
    pub(crate) fn call(&self, handle: Bytes) -> Call {
        match self {
            Change::Write { offset, data, sums, stable } => Call::Write(write::Args {
                handle,
                offset: *offset,
                stable: *stable,
                sums: sums.to_vec(),
                data: data.clone(),
            }),
            Change::Commit => Call::Commit(commit::Args { handle }),
            Change::Truncate { len } => Call::Truncate(truncate::Args { handle, len: *len }),
            Change::Allocate { offset, len } => {
                Call::Allocate(allocate::Args { handle, offset: *offset, len: *len, ask: false })
            }
            Change::Punch { offset, len } => Call::Punch(punch::Args { handle, offset: *offset, len: *len }),
            Change::Attach { base } => Call::Attach(attach::Args { handle, base: entry(base) }),
            Change::Make => Call::Make(make::Args { handles: vec![handle] }),
            Change::Remove => Call::Remove(remove::Args { handles: vec![handle], only: remove::Only::All }),
            Change::Raise => Call::Stat(stat::Args { handles: vec![handle], sync: false }),
        }
    }

    /// Prepares the change at this member: afterwards only its disk can refuse the change. A member that is
    /// being refilled makes an object that it does not have yet, and empties one of an earlier placement.
    pub(super) async fn prepare(
        &self,
        found: &Found,
        is_refilling: bool,
        log: &Arc<DirtyLog>,
    ) -> Result<Ready, ObjectError> {
        let bytes = match self {
            Change::Write { data, .. } => data.len() as u64,
            Change::Punch { offset, len } => {
                end_of(*offset, *len)?;
                0
            }
            // Its own objects may have other bytes than those of the members that are in.
            Change::Attach { .. } if is_refilling => return Err(ObjectError::NotSupported),
            Change::Commit
            | Change::Truncate { .. }
            | Change::Allocate { .. }
            | Change::Attach { .. }
            | Change::Raise => 0,
            // Here, before another member has it: one that was removed is not made again.
            Change::Make if found.handle.chain_version == 0 => {
                let object = found.object;
                return found.target.run(move |o| o.admit(object)).await.map(|()| Ready::Now);
            }
            Change::Make | Change::Remove => return Ok(Ready::Now),
        };
        let dirty = self.dirty_range();
        let (target, object) = (&found.target, found.object);
        if target.objects().is_ready(object, &dirty, bytes) {
            return Ok(Ready::Now);
        }
        let makes = matches!(self, Change::Truncate { len: 0 });
        // Nothing is unsynced of an object that is not there.
        let is_commit = matches!(self, Change::Commit);
        let is_forwarded = found.handle.chain_version != 0;
        let (chain, log) = (found.handle.chain, Arc::clone(log));
        target
            .run(move |o| {
                if is_refilling
                    && o.is_of_earlier_placement(object)?
                    && log.makes(chain, object.name, Maker::ForwardedChange)
                {
                    o.make_way(object)?;
                }
                match o.prepare(object, dirty.clone(), bytes) {
                    Err(ObjectError::Lost | ObjectError::Stale) if is_commit => Ok(Ready::Now),
                    // It was sent again, and a raise has overtaken it: the head has looked at the epoch.
                    Err(ObjectError::StaleEpoch) if is_commit && is_forwarded => Ok(Ready::Now),
                    Err(ObjectError::Lost | ObjectError::Stale)
                        if is_refilling && log.makes(chain, object.name, Maker::ForwardedChange) =>
                    {
                        o.make_of_head(object.name, chain, |mark| Mark { chain, ..mark })?;
                        o.prepare(object, dirty, bytes)
                    }
                    Err(ObjectError::Lost) if makes => {
                        o.make_of_chain(object.name, chain, |mark| Mark { chain, ..mark })?;
                        o.prepare(object, dirty, bytes)
                    }
                    prepared => prepared,
                }
            })
            .await
    }

    /// Does the work of this member.
    pub(crate) async fn own_work(&self, found: &Found) -> Result<Option<Reserve>, ObjectError> {
        let mut attempts = 0;
        loop {
            let (change, object) = (self.clone(), found.object);
            let is_forwarded = found.handle.chain_version != 0;
            let work = move |o: &Objects| match change {
                Change::Commit if is_forwarded => o.commit_of_chain(object.name).map(|()| None),
                _ => change.work(o, object),
            };
            let done = found.target.run(work).await;
            attempts += 1;
            if done != Err(ObjectError::Busy) || attempts >= BUSY_ATTEMPTS {
                return done;
            }
            tokio::time::sleep(BUSY_PAUSE).await;
        }
    }

    fn work(&self, o: &Objects, object: ObjectRef) -> Result<Option<Reserve>, ObjectError> {
        match self {
            Change::Write { offset, data, sums, stable } => {
                o.write_of_chain(object, *offset, data, sums, *stable)?
            }
            Change::Commit => o.commit(object)?,
            Change::Truncate { len } => o.truncate(object, *len)?,
            Change::Allocate { offset, len } => {
                o.note_object(&object.name, &*o.find(object.name)?)?;
                return o.allocate(object, *offset, *len).map(Some);
            }
            Change::Punch { offset, len } => o.punch_or_clear(object, *offset, *len)?,
            Change::Make => o.make_of_calls(&[object])?,
            Change::Attach { base } => o.attach(object, *base)?,
            Change::Remove => o.remove(&[object.name])?,
            Change::Raise => o.raise(object)?,
        }
        Ok(None)
    }
}

/// True for trouble of this member's disk alone: the change may be done at the other members, so this one
/// must leave the chain.
pub(crate) fn is_own_trouble(error: ObjectError) -> bool {
    match error {
        ObjectError::NoSpace
        | ObjectError::Io
        | ObjectError::Damaged
        | ObjectError::TargetLost
        | ObjectError::ReadOnly
        | ObjectError::Busy => true,
        ObjectError::Stale
        | ObjectError::StaleEpoch
        | ObjectError::Lost
        | ObjectError::TooLarge
        | ObjectError::NotSupported => false,
    }
}
