//! Epochs and marks of objects: calls that begin, and epochs that are raised.

use parking_lot::RwLockReadGuard;

use super::{ObjectError, Objects};
use crate::epoch::{Entry, Mark, ObjectRef};
use crate::object::{ObjectName, OpenObject};

impl Objects {
    /// Lets a call with this epoch begin; raises the object's epoch, if it is later.
    pub(crate) fn enter<'a>(
        &self,
        open: &'a OpenObject,
        object: ObjectRef,
    ) -> Result<RwLockReadGuard<'a, ()>, ObjectError> {
        loop {
            match open.gate.enter(object.epoch) {
                Entry::Entered(call) => return Ok(call),
                Entry::Stale => return Err(ObjectError::StaleEpoch),
                Entry::Later => open.gate.alone(object.epoch, |stored, mark| {
                    if mark == stored {
                        return Ok(stored); // raised meanwhile
                    }
                    match self.store_mark(&object.name, open, mark) {
                        // Nothing can be written either, until a mount that is followed by a restart. But a chain that
                        // no file names would be forgotten when other members are filled.
                        Err(ObjectError::ReadOnly) if mark.chain == stored.chain => Ok(mark),
                        stored => stored,
                    }
                })?,
            }
        }
    }

    /// Stores a mark that says that the object was shortened, once its length is durable. Else a loss of power could leave
    /// the mark and the former length, and the same call again would do nothing.
    pub(crate) fn store_mark_of_shortened(
        &self,
        name: &ObjectName,
        open: &OpenObject,
        mark: Mark,
    ) -> Result<Mark, ObjectError> {
        self.sync(name, open)?;
        self.store_mark(name, open, mark)
    }

    /// Stores the mark of an object, durably, with its data.
    pub(crate) fn store_mark(
        &self,
        name: &ObjectName,
        open: &OpenObject,
        mark: Mark,
    ) -> Result<Mark, ObjectError> {
        if mark.chain != 0 {
            self.note_object(name, open)?;
        }
        let set = || {
            let set = self.disk.set_mark(&open.file, &mark.to_bytes());
            set.map_err(|e| self.trouble("mark", name, e))
        };
        match set() {
            Err(ObjectError::NoSpace) => self.reclaim_some().and_then(|()| set())?,
            set => set?,
        }
        // Also when nothing was written: the mark itself is to be synced.
        open.touch();
        self.sync_by(name, open, |file| self.disk.sync_all(file))?;
        Ok(mark)
    }
}
