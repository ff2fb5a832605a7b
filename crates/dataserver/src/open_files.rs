//! Objects that are open: a bounded cache with a clock hand (second chance), so that a busy object is not
//! opened for each operation.

use std::collections::HashMap;
use std::sync::Arc;

use crate::object::{ObjectName, OpenObject};

struct Place {
    name: ObjectName,
    object: Arc<OpenObject>,
    /// Used since the hand last passed.
    used: bool,
}

/// Choice of the open file to give up for another object.
pub(crate) enum Victim {
    /// One that was durable; it is gone already.
    Dropped,
    /// All that could go have unsynced writes. Sync this one and ask again: a file that is closed before its
    /// sync could lose the report of a failed write-back.
    Sync(ObjectName, Arc<OpenObject>),
    /// All are in use: let the cache grow by one; the calls in flight bound it.
    None,
}

/// The open objects of one target.
pub(crate) struct OpenFiles {
    capacity: usize,
    index: HashMap<ObjectName, usize>,
    places: Vec<Option<Place>>,
    free: Vec<usize>,
    hand: usize,
}

impl OpenFiles {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, index: HashMap::new(), places: Vec::new(), free: Vec::new(), hand: 0 }
    }

    pub(crate) fn get(&mut self, name: &ObjectName) -> Option<Arc<OpenObject>> {
        let place = self.places[*self.index.get(name)?].as_mut()?;
        place.used = true;
        Some(Arc::clone(&place.object))
    }

    /// All open objects.
    pub(crate) fn all(&self) -> Vec<(ObjectName, Arc<OpenObject>)> {
        self.places.iter().flatten().map(|place| (place.name, Arc::clone(&place.object))).collect()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.index.len() >= self.capacity
    }

    pub(crate) fn insert(&mut self, name: ObjectName, object: Arc<OpenObject>) {
        self.remove(&name);
        let place = Some(Place { name, object, used: true });
        let at = match self.free.pop() {
            Some(at) => {
                self.places[at] = place;
                at
            }
            None => {
                self.places.push(place);
                self.places.len() - 1
            }
        };
        self.index.insert(name, at);
    }

    pub(crate) fn remove(&mut self, name: &ObjectName) -> Option<Arc<OpenObject>> {
        let at = self.index.remove(name)?;
        self.free.push(at);
        self.places[at].take().map(|p| p.object)
    }

    /// Makes room for one more, if that is possible without I/O.
    pub(crate) fn evict(&mut self) -> Victim {
        let mut dirty = None;
        // Twice around: the first pass may find all of them used and takes their second chance away.
        for _ in 0..self.places.len() * 2 {
            self.hand = (self.hand + 1) % self.places.len();
            let Some(place) = &mut self.places[self.hand] else { continue };
            if Arc::strong_count(&place.object) > 1 {
                // In use: a write in progress would mark an object that the table no longer finds.
                continue;
            }
            if std::mem::take(&mut place.used) {
                continue;
            }
            if place.object.is_dirty() {
                dirty.get_or_insert((place.name, self.hand));
                continue;
            }
            let name = place.name;
            self.remove(&name);
            return Victim::Dropped;
        }
        match dirty.and_then(|(name, at)| Some((name, Arc::clone(&self.places[at].as_ref()?.object)))) {
            Some((name, object)) => Victim::Sync(name, object),
            None => Victim::None,
        }
    }
}
