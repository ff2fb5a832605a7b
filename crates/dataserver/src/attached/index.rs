//! The attached objects of a target, and their bases.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::{Bases, Number};
use crate::object::ObjectName;

/// Each object with its bases, and each base with its objects.
#[derive(Default)]
pub(super) struct Index {
    bases: BTreeMap<ObjectName, Bases>,
    objects: BTreeMap<ObjectName, BTreeSet<ObjectName>>,
}

impl Index {
    pub(super) fn get(&self, name: &ObjectName) -> Option<&Bases> {
        self.bases.get(name)
    }

    pub(super) fn insert(&mut self, name: ObjectName, bases: Bases) {
        self.remove(&name);
        for base in bases.iter().flatten() {
            self.objects.entry(*base).or_default().insert(name);
        }
        self.bases.insert(name, bases);
    }

    pub(super) fn remove(&mut self, name: &ObjectName) {
        let bases = self.bases.remove(name);
        bases.iter().flatten().flatten().for_each(|base| self.forget(name, base));
    }

    /// The object is attached to this base no more.
    pub(super) fn drop_base(&mut self, name: &ObjectName, number: Number) {
        let bases = self.bases.get_mut(name);
        if let Some(base) = bases.and_then(|bases| bases[usize::from(number) - 1].take()) {
            self.forget(name, &base);
        }
    }

    fn forget(&mut self, name: &ObjectName, base: &ObjectName) {
        if let Some(objects) = self.objects.get_mut(base) {
            objects.remove(name);
            if objects.is_empty() {
                self.objects.remove(base);
            }
        }
    }

    /// The objects that are attached to `base`.
    pub(super) fn objects_of(&self, base: &ObjectName) -> Vec<ObjectName> {
        self.objects.get(base).into_iter().flatten().copied().collect()
    }

    /// At most `count` objects from this one on.
    pub(super) fn from(&self, first: Option<ObjectName>, count: usize) -> Vec<ObjectName> {
        let first = first.map_or(Bound::Unbounded, Bound::Included);
        self.bases.range((first, Bound::Unbounded)).take(count).map(|(name, _)| *name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_has_the_objects_that_are_attached_to_it() {
        let name = |inode| ObjectName { inode, column: 0, volume: 1, generation: 1 };
        let mut index = Index::default();
        let mut bases = Bases::default();
        (bases[0], bases[1]) = (Some(name(2)), Some(name(1)));
        index.insert(name(3), bases);
        index.insert(name(2), [Some(name(1)), None, None, None, None, None, None, None]);
        assert_eq!(index.objects_of(&name(1)), [name(2), name(3)]);
        assert_eq!((index.from(Some(name(3)), 9), index.from(None, 1)), (vec![name(3)], vec![name(2)]));
        index.drop_base(&name(3), 2);
        assert_eq!(index.objects_of(&name(1)), [name(2)]);
        index.remove(&name(2));
        assert_eq!((index.objects_of(&name(1)), index.objects_of(&name(2))), (vec![], vec![name(3)]));
    }
}
