//! Filling of attached objects in the background, until they need their bases no more.

use std::sync::Arc;

use super::{Attached, BASE_SUFFIX, BASE_SUMS_SUFFIX, MAP_SUFFIX, file};
use crate::object::{ObjectName, OpenObject};
use crate::objects::{ObjectError, Objects};

/// Part of a target that is left to clients: less is free, and nothing is copied.
const LEFT_FREE: u64 = 20;
/// Copied at a time: an object's writers wait for so much.
const STEP_BYTES: u64 = 4 << 20;

/// Outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FillStep {
    /// So many bytes were copied, of this object; there is more.
    Filled(ObjectName, u64),
    /// Nothing could be done for this object, for now.
    Failed(ObjectName, ObjectError),
    /// No object from the given one on is attached.
    Ended,
}

impl Objects {
    /// Copies some of the attached object `from` or the next one after it, or ends its attachment. Blocks.
    #[must_use]
    pub fn fill_step(&self, from: Option<ObjectName>) -> FillStep {
        let next = {
            let bases = self.attachments.bases.lock();
            let next = bases.keys().find(|name| from.is_none_or(|from| **name >= from));
            next.copied()
        };
        let Some(name) = next else { return FillStep::Ended };
        match self.check().and_then(|()| self.fill_some(name)) {
            Ok(bytes) => FillStep::Filled(name, bytes),
            // It was removed meanwhile.
            Err(ObjectError::Stale | ObjectError::Lost) => FillStep::Filled(name, 0),
            Err(error) => FillStep::Failed(name, error),
        }
    }

    fn fill_some(&self, name: ObjectName) -> Result<u64, ObjectError> {
        let open = self.find(name)?;
        let Some(attached) = open.attachment.get() else { return Ok(0) };
        let space = self.space()?;
        if space.free < space.total / LEFT_FREE && attached.next_of_base(0).is_some() {
            return Err(ObjectError::NoSpace);
        }
        let filling = attached.filling.lock();
        let copied = self.own_some(&name, &open, &attached, 0..u64::MAX, STEP_BYTES)?;
        drop(filling);
        if attached.next_of_base(0).is_none() {
            self.detach(&name, &open, &attached)?;
        }
        Ok(copied)
    }

    /// Ends the attachment of an object whose regions are all its own.
    fn detach(
        &self,
        name: &ObjectName,
        open: &Arc<OpenObject>,
        attached: &Arc<Attached>,
    ) -> Result<(), ObjectError> {
        // Its data, and then its map: also if the latter alone was changed.
        open.touch();
        self.sync(name, open)?;
        let _name = self.name_lock(name).lock();
        let is_same = open.attachment.get().is_some_and(|now| Arc::ptr_eq(&now, attached));
        if !is_same || !self.attachments.contains(name) {
            return Ok(()); // it was removed meanwhile
        }
        let fail = |e| self.trouble("end the attachment of", name, e);
        self.remove_if_there(&file(name, MAP_SUFFIX)).map_err(fail)?;
        self.sync_directory(name.directory())?;
        open.attachment.set(None);
        self.attachments.bases.lock().remove(name);
        for suffix in [BASE_SUFFIX, BASE_SUMS_SUFFIX] {
            self.remove_if_there(&file(name, suffix)).map_err(fail)?;
        }
        Ok(())
    }
}
