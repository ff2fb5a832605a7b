//! The objects that were removed last: a write that was under way must not bring one of them back.

use std::collections::{HashSet, VecDeque};

use crate::object::ObjectName;

/// Number of remembered objects: two megabytes for the removals of many seconds. A later write is found by
/// the metaserver's search for orphans.
const REMOVED_MAX: usize = 65_536;

/// The newest of the removed objects.
#[derive(Debug, Default)]
pub(crate) struct Removed {
    set: HashSet<ObjectName>,
    order: VecDeque<ObjectName>,
}

impl Removed {
    pub(crate) fn insert(&mut self, name: ObjectName) {
        if !self.set.insert(name) {
            return;
        }
        self.order.push_back(name);
        if self.order.len() > REMOVED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.set.remove(&oldest);
        }
    }

    /// Forgets a removal. Rare: it looks through all.
    pub(crate) fn forget(&mut self, name: &ObjectName) {
        if self.set.remove(name) {
            self.order.retain(|other| other != name);
        }
    }

    pub(crate) fn contains(&self, name: &ObjectName) -> bool {
        self.set.contains(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten_first() {
        let name = |inode| ObjectName { inode, column: 0, volume: 1, generation: 1 };
        let mut removed = Removed::default();
        for inode in 0..=REMOVED_MAX as u64 {
            removed.insert(name(inode));
            removed.insert(name(inode));
        }
        assert!(!removed.contains(&name(0)));
        assert!(removed.contains(&name(1)));
        assert_eq!(removed.order.len(), REMOVED_MAX);
        assert_eq!(removed.set.len(), REMOVED_MAX);
        removed.forget(&name(1));
        removed.forget(&name(0));
        assert!(!removed.contains(&name(1)));
        assert_eq!((removed.order.len(), removed.set.len()), (REMOVED_MAX - 1, REMOVED_MAX - 1));
    }
}
