//! The objects that were removed last: a call that was under way must not bring one of them back.

use std::collections::{HashMap, VecDeque};

use crate::epoch::{Epoch, ObjectRef};
use crate::object::ObjectName;
use crate::objects::ObjectError;

/// Number of remembered objects: some megabytes for the removals of many seconds. A later write is found by
/// the metaserver's search for orphans.
const REMOVED_MAX: usize = 65_536;

/// How long an object stays removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// For ever: its file is removed.
    Never,
    /// Until a MAKE with this epoch or a later one: its column may come back.
    Epoch(Epoch),
}

/// The newest of the removed objects.
#[derive(Debug, Default)]
pub(crate) struct Removed {
    all: HashMap<ObjectName, Until>,
    order: VecDeque<ObjectName>,
}

impl Removed {
    /// Remembers an object whose file is removed.
    pub(crate) fn insert(&mut self, name: ObjectName) {
        self.remember(name, Until::Never);
    }

    /// Remembers an object that a MAKE with its epoch or a later one brings back.
    pub(crate) fn insert_until(&mut self, object: ObjectRef) {
        if !self.is_removed_for_ever(&object.name) {
            self.remember(object.name, Until::Epoch(object.epoch));
        }
    }

    fn is_removed_for_ever(&self, name: &ObjectName) -> bool {
        self.all.get(name) == Some(&Until::Never)
    }

    fn remember(&mut self, name: ObjectName, until: Until) {
        if self.all.insert(name, until).is_some() {
            return;
        }
        self.order.push_back(name);
        if self.order.len() > REMOVED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.all.remove(&oldest);
        }
    }

    /// Forgets a removal. Rare: it looks through all.
    pub(crate) fn forget(&mut self, name: &ObjectName) {
        if self.all.remove(name).is_some() {
            self.order.retain(|other| other != name);
        }
    }

    /// Forgets a removal if a MAKE brings the object back.
    ///
    /// # Errors
    /// `Stale` for an object whose file was removed, `StaleEpoch` for a MAKE from before the removal.
    pub(crate) fn admit(&mut self, object: ObjectRef) -> Result<(), ObjectError> {
        match self.all.get(&object.name) {
            None => Ok(()),
            Some(Until::Never) => Err(ObjectError::Stale),
            Some(Until::Epoch(epoch)) if object.epoch.is_before(*epoch) => Err(ObjectError::StaleEpoch),
            Some(Until::Epoch(_)) => {
                self.forget(&object.name);
                Ok(())
            }
        }
    }

    pub(crate) fn contains(&self, name: &ObjectName) -> bool {
        self.all.contains_key(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoch::CallEpoch;

    fn name(inode: u64) -> ObjectName {
        ObjectName { inode, column: 0, volume: 1, generation: 1 }
    }

    fn object(incarnation: u64, epoch: u32) -> ObjectRef {
        let epoch = Epoch { incarnation, chain: 0, call: CallEpoch::Server(epoch, 0) };
        ObjectRef { name: name(1), epoch }
    }

    #[test]
    fn the_oldest_is_forgotten_first() {
        let mut removed = Removed::default();
        for inode in 0..=REMOVED_MAX as u64 {
            removed.insert(name(inode));
            removed.insert(name(inode));
        }
        assert!(!removed.contains(&name(0)));
        assert!(removed.contains(&name(1)));
        assert_eq!(removed.order.len(), REMOVED_MAX);
        assert_eq!(removed.all.len(), REMOVED_MAX);
        removed.forget(&name(1));
        removed.forget(&name(0));
        assert!(!removed.contains(&name(1)));
        assert_eq!((removed.order.len(), removed.all.len()), (REMOVED_MAX - 1, REMOVED_MAX - 1));
    }

    #[test]
    fn a_column_comes_back_by_the_make_of_a_later_placement() {
        for (by, comes_back) in [(object(7, 3), false), (object(7, 4), true), (object(8, 1), true)] {
            let mut removed = Removed::default();
            removed.insert_until(object(7, 4));
            let expected = if comes_back { Ok(()) } else { Err(ObjectError::StaleEpoch) };
            assert_eq!(removed.admit(by), expected, "{by:?}");
            assert_eq!(removed.contains(&name(1)), !comes_back, "{by:?}");
        }
        let mut removed = Removed::default();
        removed.insert(name(1));
        removed.insert_until(object(7, 4));
        assert_eq!(removed.admit(object(7, 5)), Err(ObjectError::Stale), "its file is removed");
    }
}
