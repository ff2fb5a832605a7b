//! Changes that are not on disk yet, in memory and in order.

use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;

/// What an entry costs beside its key and value: two counted allocations and its place in the tree.
const ENTRY_BYTES: usize = 96;

/// The value that a key has got; none: it was deleted.
pub(crate) type Change = Option<Arc<[u8]>>;

/// The newest change of each key. A copy costs nothing and does not see what is changed later: the tree's nodes are
/// shared until one side changes them.
#[derive(Clone, Default)]
pub(crate) struct Layer {
    changes: OrdMap<Arc<[u8]>, Change>,
    bytes: usize,
}

impl Layer {
    /// What it takes of memory, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// None: this layer says nothing of the key.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Change> {
        self.changes.get(key)
    }

    pub(crate) fn set(&mut self, key: &[u8], value: Option<&[u8]>) {
        let change: Change = value.map(Arc::from);
        let added = change.as_ref().map_or(0, |v| v.len());
        if let Some(present) = self.changes.get_mut(key) {
            let removed = present.as_ref().map_or(0, |v| v.len());
            *present = change;
            self.bytes = self.bytes + added - removed;
        } else {
            self.changes.insert(Arc::from(key), change);
            self.bytes += key.len() + added + ENTRY_BYTES;
        }
    }

    /// The changes of keys with `from <= key < to`, in order; `from` must not be above `to`.
    pub(crate) fn range(&self, from: &[u8], to: &[u8]) -> impl Iterator<Item = (&[u8], &Change)> {
        let range = self.changes.range::<_, [u8]>((Bound::Included(from), Bound::Excluded(to)));
        range.map(|(key, change)| (&**key, change))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &Change)> {
        self.changes.iter().map(|(key, change)| (&**key, change))
    }
}
