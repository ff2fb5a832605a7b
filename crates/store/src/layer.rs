//! Layer of changes in memory that are not on disk yet, in the order of keys.

use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;

/// Memory of an entry beside key and value: two counted allocations and its node in the tree.
const ENTRY_BYTES: usize = 96;

/// New value of a key; None: deleted.
pub(crate) type Change = Option<Arc<[u8]>>;

/// Newest change of each key. A copy is cheap and does not see later changes: the nodes of the tree are
/// shared until one side changes them.
#[derive(Clone, Default)]
pub(crate) struct Layer {
    changes: OrdMap<Arc<[u8]>, Change>,
    bytes: usize,
}

impl Layer {
    /// Approximate memory of the layer.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The change of a key; None: the layer has none.
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

    /// Changes of keys with `from <= key < to`, in order; `from` must not be above `to`.
    pub(crate) fn range(&self, from: &[u8], to: &[u8]) -> impl Iterator<Item = (&[u8], &Change)> {
        let range = self.changes.range::<_, [u8]>((Bound::Included(from), Bound::Excluded(to)));
        range.map(|(key, change)| (&**key, change))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &Change)> {
        self.changes.iter().map(|(key, change)| (&**key, change))
    }
}
