//! Work on the objects of a target that only members of chains need.

use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use wire::xdr::Payload;

use crate::epoch::{Entry, Mark, ObjectRef, Placement};
use crate::object::{ObjectName, ObjectStat};
use crate::objects::{ObjectError, Objects, end_of};

/// State of an object before a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ready {
    /// The change may begin, and nothing but the disk can refuse it.
    Now,
    /// The call's epoch is later than the object's.
    LaterEpoch,
}

impl Objects {
    /// Makes an object of a chain, empty and durable, and notes the chain. `mark` gives the mark after the
    /// one that the object has.
    pub(crate) fn make_of_chain(
        &self,
        name: ObjectName,
        chain: u64,
        mark: impl FnOnce(Mark) -> Mark,
    ) -> Result<(), ObjectError> {
        self.make_on(&[name], chain)?;
        let open = self.find(name)?;
        open.gate.replace(|stored| match mark(stored) {
            same if same == stored => Ok(stored),
            new => self.store_mark(&name, &open, new),
        })
    }

    /// Makes an object that the head of its chain has, as [`Objects::make_of_chain`] does, at a member that is
    /// refilled: the head knows better if it was removed.
    pub(crate) fn make_of_head(
        &self,
        name: ObjectName,
        chain: u64,
        mark: impl FnOnce(Mark) -> Mark,
    ) -> Result<(), ObjectError> {
        self.removed.lock().forget(&name);
        self.make_of_chain(name, chain, mark)
    }

    /// True if the object has data of an earlier placement, on another chain than the call names: they do not count.
    pub(crate) fn is_of_earlier_placement(&self, object: ObjectRef) -> Result<bool, ObjectError> {
        let beside = self.mark_of(object.name)?.and_then(|mark| mark.beside_head(object.epoch));
        Ok(matches!(beside, Some(Placement::Anew(_))))
    }

    /// Makes way, at a member that is refilled, for the object that the head of a chain has: one of an earlier placement
    /// is emptied.
    ///
    /// # Errors
    /// `StaleEpoch` if the object is on another chain by now, or has data there with the same epoch.
    pub(crate) fn make_way(&self, object: ObjectRef) -> Result<(), ObjectError> {
        let name = object.name;
        let open = match self.find(name) {
            Err(ObjectError::Stale | ObjectError::Lost) => return Ok(()),
            found => found?,
        };
        open.gate.replace(|stored| {
            let has_data =
                || open.stat().map(|stat| stat.len > 0).map_err(|e| self.trouble("look at", &name, e));
            match stored.beside_head(object.epoch) {
                Some(Placement::Past) => Err(ObjectError::StaleEpoch),
                Some(Placement::IfEmpty(_)) if has_data()? => Err(ObjectError::StaleEpoch),
                Some(Placement::Anew(new)) => {
                    self.set_length(name, 0)?;
                    self.store_mark_of_shortened(&name, &open, new)
                }
                Some(Placement::IfEmpty(_) | Placement::Stays(_)) | None => Ok(stored),
            }
        })
    }

    /// Closes objects with copies whose files were removed below this server, so that they are found to be lost.
    /// Returns them, with their marks.
    pub(crate) fn close_lost_objects(&self) -> Result<Vec<(ObjectName, Mark)>, ObjectError> {
        self.check()?;
        let mut lost = Vec::new();
        let open = self.open.lock().all();
        for (name, object) in open {
            let mark = object.gate.mark();
            if mark.chain == 0 || object.file.metadata().is_ok_and(|found| found.nlink() > 0) {
                continue;
            }
            let _name = self.name_lock(&name).lock();
            let mut open = self.open.lock();
            // A removal by the metaserver has closed the object by the time it lets go of the name.
            if open.get(&name).is_some_and(|now| Arc::ptr_eq(&now, &object)) {
                open.remove(&name);
                lost.push((name, mark));
            }
        }
        Ok(lost)
    }

    /// Without blocking: true if the object is open, has the epoch of the call, its change log the regions of
    /// `dirty`, and there is room for `bytes`, which is taken. False: [`Objects::prepare`] finds out.
    pub(crate) fn is_ready(&self, object: ObjectRef, dirty: &Range<u64>, bytes: u64) -> bool {
        self.check().is_ok()
            && self.end_of_change(dirty, bytes).is_ok()
            && self.open.lock().get(&object.name).is_some_and(|open| {
                matches!(open.gate.enter(object.epoch), Entry::Entered(_))
                    && (dirty.is_empty() || open.noted.has(dirty))
                    && self.capacity.take_known(bytes)
            })
    }

    /// A change without new bytes does not lengthen the object: it may be anywhere.
    fn end_of_change(&self, dirty: &Range<u64>, bytes: u64) -> Result<u64, ObjectError> {
        if bytes > 0 { self.end_in_file(dirty.start, bytes) } else { end_of(dirty.start, 0) }
    }

    /// Finds the object, compares epochs, notes that the bytes `dirty` may change, and takes room for `bytes`.
    pub(crate) fn prepare(
        &self,
        object: ObjectRef,
        dirty: Range<u64>,
        bytes: u64,
    ) -> Result<Ready, ObjectError> {
        self.check()?;
        self.end_of_change(&dirty, bytes)?;
        let open = self.find(object.name)?;
        let ready = match open.gate.enter(object.epoch) {
            Entry::Entered(_) => Ready::Now,
            Entry::Stale => return Err(ObjectError::StaleEpoch),
            Entry::Later => return Ok(Ready::LaterEpoch),
        };
        if bytes > 0 {
            self.take_room(bytes)?;
        }
        self.note_before_others(&object.name, &open, dirty)?;
        Ok(ready)
    }

    /// Raises the object's epoch to that of the call.
    pub(crate) fn raise(&self, object: ObjectRef) -> Result<(), ObjectError> {
        let open = self.find(object.name)?;
        self.enter(&open, object).map(drop)
    }

    /// Writes bytes that there is room for; durably, if so wanted.
    pub(crate) fn write_of_chain(
        &self,
        object: ObjectRef,
        offset: u64,
        data: &Payload,
        sums: &[u32],
        stable: bool,
    ) -> Result<(), ObjectError> {
        self.write_in_room(object, offset, data, Some(sums))?;
        if stable { self.commit(object) } else { Ok(()) }
    }

    /// Makes durable what was written, whatever the object's epoch is.
    pub(crate) fn commit_of_chain(&self, name: ObjectName) -> Result<(), ObjectError> {
        self.check()?;
        let open = self.open.lock().get(&name);
        open.map_or(Ok(()), |open| self.sync(&name, &open))
    }

    /// Makes a range a hole, durably; writes zeros where the file system makes no holes.
    pub(crate) fn punch_or_clear(&self, object: ObjectRef, offset: u64, len: u64) -> Result<(), ObjectError> {
        match self.punch(object, offset, len) {
            Err(ObjectError::NotSupported) => {
                self.clear(object, offset, len)?;
                self.commit(object)
            }
            outcome => outcome,
        }
    }

    /// Sets the length of an object, longer or shorter, whatever its epoch is.
    pub(crate) fn set_length(&self, name: ObjectName, len: u64) -> Result<(), ObjectError> {
        self.end_in_file(len, 0)?;
        let open = self.find(name)?;
        if len > 0 {
            self.begin_sums(&name, &open, 0)?;
        }
        let outcome = {
            match open.stat().map_err(|e| self.trouble("look at", &name, e))?.len.cmp(&len) {
                std::cmp::Ordering::Equal => return Ok(()),
                std::cmp::Ordering::Greater => self.shorten(&name, &open, len),
                // What it gets is zeros, which have no sums.
                std::cmp::Ordering::Less => {
                    let attached = open.attachment.get();
                    let _quiet = attached.as_ref().map(|attached| attached.quiet());
                    let mut changing = open.writing.lock();
                    self.note_change(&name, &mut changing, 0..1, false)?;
                    let set = self.disk.set_len(&open.file, len);
                    set.map_err(|e| self.trouble("set the length of", &name, e))
                }
            }
        };
        open.touch();
        outcome
    }

    /// The mark of an object; none: the object is not there.
    pub(crate) fn mark_of(&self, name: ObjectName) -> Result<Option<Mark>, ObjectError> {
        match self.find(name) {
            Ok(open) => Ok(Some(open.gate.mark())),
            Err(ObjectError::Stale | ObjectError::Lost) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes sure that the object's modification time is at least `told_ns`, and that of the next write
    /// later.
    pub(crate) fn tell_time(&self, name: ObjectName, told_ns: u64) -> Result<(), ObjectError> {
        match self.find(name) {
            Ok(open) => {
                let attached = open.attachment.get();
                let _quiet = attached.as_ref().map(|attached| attached.quiet());
                open.tell_time(told_ns).map_err(|e| self.trouble("set the time of", &name, e))
            }
            // A removed object's time is never reported again.
            Err(ObjectError::Stale | ObjectError::Lost) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Length and time of an object as the head reports them, and whether all members know that time. None if
    /// it was removed.
    pub(crate) fn stat_at_head(&self, object: ObjectRef) -> Result<(Option<ObjectStat>, bool), ObjectError> {
        let look = || Ok((self.stat(object, false)?, self.find(object.name)?));
        let (found, open) = match look() {
            Ok(found) => found,
            Err(ObjectError::Stale) => return Ok((None, true)),
            Err(error) => return Err(error),
        };
        Ok((Some(found), open.known_to_all_ns.load(Ordering::Acquire) == found.modified_ns))
    }

    /// Notes that all members know this time of the object.
    pub(crate) fn time_is_known(&self, name: ObjectName, modified_ns: u64) {
        if let Ok(open) = self.find(name) {
            open.known_to_all_ns.store(modified_ns, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoch::{CallEpoch, Epoch};
    use crate::{Settling, Target};

    #[test]
    fn a_change_that_is_prepared_is_in_the_change_log() {
        let dir = tempfile::tempdir().unwrap();
        let target =
            Target::open_or_create(&dir.path().join("target"), [1; 16], &host::SystemEntropy).unwrap();
        let o = target.objects();
        let name = ObjectName { inode: 5, column: 0, volume: 1, generation: 1 };
        o.make_of_chain(name, 9, |mark| Mark { chain: 9, ..mark }).unwrap();
        o.settle_all(&Settling::default());
        assert_eq!(o.checksums.log.regions(&name).1, 0, "all is settled");
        let epoch = Epoch { incarnation: 0, chain: 9, call: CallEpoch::Server(0, 0) };
        let object = ObjectRef { name, epoch };
        assert!(o.prepare(object, 0..0, 0).is_ok() && o.is_ready(object, &(0..0), 0));
        let (here, there) = (0..100, 1 << 30..(1 << 30) + 1);
        assert!(!o.is_ready(object, &here, 100));
        assert_eq!(o.prepare(object, here.clone(), 100), Ok(Ready::Now));
        assert!(o.is_ready(object, &here, 100) && !o.is_ready(object, &there, 1));
        assert!(o.checksums.log.regions(&name).0.touches(0, 1));
        // Another epoch is noted before it is stored.
        o.settle_all(&Settling::default());
        let raised = Epoch { incarnation: 1, chain: 9, call: CallEpoch::Server(7, 0) };
        o.raise(ObjectRef { name, epoch: raised }).unwrap();
        assert!(o.checksums.log.regions(&name).1 > 0);
    }
}
