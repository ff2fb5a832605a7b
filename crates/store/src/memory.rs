//! Store in memory, for tests and simulation: a sorted map, shared with its snapshots until a batch changes
//! it.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::{Durability, Edit, Pairs, Store, StoreError, View, Visitor};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Store in memory, copy-on-write: a snapshot costs one reference count; the first batch after it copies the
/// map, so hold no snapshot across batches where speed matters.
#[derive(Debug, Default)]
pub struct MemoryStore {
    current: Mutex<Arc<Map>>,
    /// Held by one batch at a time; snapshots do not wait for it.
    writer: Mutex<()>,
}

impl MemoryStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn current(&self) -> Arc<Map> {
        self.current.lock().clone()
    }
}

impl Store for MemoryStore {
    fn snapshot(&self) -> Result<Box<dyn View + Send + Sync>, StoreError> {
        Ok(Box::new(Snapshot(self.current())))
    }

    fn batch(
        &self,
        _durability: Durability,
        edit: &mut dyn FnMut(&mut dyn Edit) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let _writer = self.writer.lock();
        let mut batch = Batch { base: self.current(), changes: BTreeMap::new() };
        edit(&mut batch)?;
        let Batch { base, changes } = batch;
        drop(base); // otherwise `make_mut` would copy the map even without a snapshot
        let mut current = self.current.lock();
        let map = Arc::make_mut(&mut current);
        for (key, value) in changes {
            match value {
                Some(value) => map.insert(key, value),
                None => map.remove(&key),
            };
        }
        Ok(())
    }

    fn replace(&self, pairs: &mut Pairs<'_>) -> Result<(), StoreError> {
        let _writer = self.writer.lock();
        let map = pairs.collect::<Result<Map, _>>()?;
        *self.current.lock() = Arc::new(map);
        Ok(())
    }
}

struct Snapshot(Arc<Map>);

impl View for Snapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.get(key).cloned())
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut Visitor<'_>) -> Result<(), StoreError> {
        if from < to {
            for (key, value) in self.0.range::<[u8], _>((Bound::Included(from), Bound::Excluded(to))) {
                if visit(key, value).is_break() {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Contents before the batch, and the batch's changes; `None`: deleted.
struct Batch {
    base: Arc<Map>,
    changes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl View for Batch {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(match self.changes.get(key) {
            Some(changed) => changed.clone(),
            None => self.base.get(key).cloned(),
        })
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut Visitor<'_>) -> Result<(), StoreError> {
        if from >= to {
            return Ok(());
        }
        let range = (Bound::Included(from), Bound::Excluded(to));
        let mut base = self.base.range::<[u8], _>(range).peekable();
        let mut changes = self.changes.range::<[u8], _>(range).peekable();
        loop {
            // Take the lower of the two keys; at equal keys the change hides the base.
            let change_is_next = match (base.peek(), changes.peek()) {
                (None, None) => return Ok(()),
                (Some(_), None) => false,
                (None, Some(_)) => true,
                (Some((base, _)), Some((change, _))) => change <= base,
            };
            let flow = if change_is_next {
                let Some((key, value)) = changes.next() else { return Ok(()) };
                if base.peek().is_some_and(|(base, _)| *base == key) {
                    base.next();
                }
                value.as_ref().map_or(ControlFlow::Continue(()), |value| visit(key, value))
            } else {
                let Some((key, value)) = base.next() else { return Ok(()) };
                visit(key, value)
            };
            if flow.is_break() {
                return Ok(());
            }
        }
    }
}

impl Edit for Batch {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.changes.insert(key.to_vec(), Some(value.to_vec()));
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.changes.insert(key.to_vec(), None);
        Ok(())
    }
}
