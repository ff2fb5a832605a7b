//! Filling of attached objects in the background: what nothing else needs of their bases becomes their own.

use std::sync::Arc;

use super::{Attached, Number, base_files, map_file, numbers};
use crate::object::{ObjectName, OpenObject};
use crate::objects::{ObjectError, Objects};

/// Bases that an object keeps as long as something else needs them; of more, the one with the fewest regions is copied, so
/// that an object can be attached to this one.
const KEPT: usize = 4;
/// Part of a target that is left to clients: less is free, and nothing is copied.
const LEFT_FREE: u64 = 20;
/// Copied at a time: an object's writers wait for so much.
const STEP_BYTES: u64 = 4 << 20;
/// Objects that are looked at in a step.
const LOOKS: usize = 256;

/// Outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FillStep {
    /// So many bytes were copied, of this object; there may be more.
    Filled(ObjectName, u64),
    /// Nothing is to be done for this object and those before it.
    Rests(ObjectName),
    /// Nothing could be done for this object, for now.
    Failed(ObjectName, ObjectError),
    /// No object from the given one on is attached.
    Ended,
}

/// What is to be done for an object.
enum Need {
    /// A base is to be copied.
    Copy(Number),
    /// Bases that no region is of are to be dropped.
    Drop,
}

impl Objects {
    /// Copies some of the attached object `from`, or of the next one after it that needs it, or ends its attachment. Blocks.
    #[must_use]
    pub fn fill_step(&self, from: Option<ObjectName>) -> FillStep {
        let next = self.attachments.all.lock().from(from, LOOKS);
        let Some(last) = next.last().copied() else { return FillStep::Ended };
        for name in next {
            match self.check().and_then(|()| self.fill_some(name)) {
                Ok(None) => {}
                Ok(Some(bytes)) => return FillStep::Filled(name, bytes),
                // It was removed meanwhile.
                Err(ObjectError::Stale | ObjectError::Lost) => {}
                Err(error) => return FillStep::Failed(name, error),
            }
        }
        FillStep::Rests(last)
    }

    /// None: nothing is to be done.
    fn fill_some(&self, name: ObjectName) -> Result<Option<u64>, ObjectError> {
        // Without opening it: there may be very many.
        let Some(need) = self.need(&name)? else { return Ok(None) };
        let open = self.find(name)?;
        let Some(attached) = open.attachment.get() else { return Ok(None) };
        // Writers do not wait for all that it has.
        self.sync(&name, &open)?;
        let _filling = attached.filling.lock();
        let mut copied = 0;
        if let Need::Copy(number) = need {
            let space = self.space()?;
            if attached.map.lock().count(number) > 0 {
                if space.free < space.total / LEFT_FREE {
                    return Err(ObjectError::NoSpace);
                }
                copied = self.own_some(&name, &open, &attached, 0..u64::MAX, STEP_BYTES, Some(number))?;
            }
        }
        self.drop_bases(&name, &open, &attached)?;
        Ok(Some(copied))
    }

    /// What is to be done for an object, if anything is.
    fn need(&self, name: &ObjectName) -> Result<Option<Need>, ObjectError> {
        let Some(bases) = self.attachments.all.lock().get(name).copied() else { return Ok(None) };
        let known: Vec<Number> =
            numbers().filter(|number| bases[usize::from(*number) - 1].is_some()).collect();
        for number in known.iter().copied() {
            let [file, _] = base_files(name, number);
            // No name but this one, or, of one that was taken away below this server, none at all.
            if self.root.names_of(&file).map_err(|e| self.trouble("look at", name, e))? < 2 {
                return Ok(Some(Need::Copy(number)));
            }
        }
        let open = self.open.lock().get(name);
        let has_unused = open.and_then(|open| open.attachment.get()).is_some_and(|attached| {
            let map = attached.map.lock();
            known.iter().any(|number| map.count(*number) == 0)
        });
        if has_unused || known.is_empty() {
            return Ok(Some(Need::Drop));
        }
        if known.len() <= KEPT {
            return Ok(None);
        }
        let open = self.find(*name)?;
        let Some(attached) = open.attachment.get() else { return Ok(None) };
        let map = attached.map.lock();
        Ok(known.into_iter().min_by_key(|number| map.count(*number)).map(Need::Copy))
    }

    /// Removes the second names of bases that no region is of; without any base, the object is one like others. The caller
    /// has `filling`.
    fn drop_bases(
        &self,
        name: &ObjectName,
        open: &Arc<OpenObject>,
        attached: &Arc<Attached>,
    ) -> Result<(), ObjectError> {
        let unused: Vec<Number> = {
            let map = attached.map.lock();
            let is_unused =
                |number: &Number| map.bases()[usize::from(*number) - 1].is_some() && map.count(*number) == 0;
            numbers().filter(is_unused).collect()
        };
        let is_full = attached.map.lock().is_full();
        if unused.is_empty() && !is_full {
            return Ok(());
        }
        // Its data, and then its map: also if the latter alone was changed.
        open.touch();
        self.sync(name, open)?;
        let _name = self.name_lock(name).lock();
        let is_same = open.attachment.get().is_some_and(|now| Arc::ptr_eq(&now, attached));
        if !is_same || !self.attachments.contains(name) {
            return Ok(()); // it was removed meanwhile
        }
        let fail = |e| self.trouble("end the attachment of", name, e);
        if is_full {
            self.remove_if_there(&map_file(name)).map_err(fail)?;
            open.attachment.set(None);
            self.attachments.all.lock().remove(name);
            self.sync_directory(name.directory())?;
        }
        for number in unused {
            for file in base_files(name, number) {
                self.remove_if_there(&file).map_err(fail)?;
            }
            attached.bases.lock()[usize::from(number) - 1] = None;
            attached.map.lock().drop_base(number);
            self.attachments.all.lock().drop_base(name, number);
        }
        open.touch();
        Ok(())
    }
}
