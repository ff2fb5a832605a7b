//! Locks of ranges of objects: shared for reads, alone for changes, granted in the order in which they were
//! asked for.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::object::ObjectName;

/// Range of the whole object.
pub(crate) const WHOLE: Range<u64> = 0..u64::MAX;

/// An object of one of this server's targets.
pub(crate) type Key = (u64, ObjectName);

/// Kind of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// For a read: others may read.
    Shared,
    /// For a change of an object of this chain.
    Alone(u64),
}

/// The locks. Their number is that of the calls under way, which the memory for calls bounds.
#[derive(Default)]
pub(crate) struct RangeLocks {
    objects: Mutex<BTreeMap<Key, Queue>>,
}

/// Locks of one object, held and asked for, oldest first.
#[derive(Default)]
struct Queue {
    next_id: u64,
    entries: Vec<Entry>,
}

struct Entry {
    id: u64,
    range: Range<u64>,
    kind: Kind,
    /// Tells the one that waits; none: the lock is held.
    waits: Option<oneshot::Sender<()>>,
}

impl Entry {
    fn meets(&self, other: &Entry) -> bool {
        let overlap = self.range.start < other.range.end && other.range.start < self.range.end;
        overlap && (self.kind != Kind::Shared || other.kind != Kind::Shared)
    }
}

impl RangeLocks {
    /// Takes the next place for a lock of `range`. The place counts from now on, before the lock is awaited.
    pub(crate) fn ask(self: &Arc<Self>, key: Key, range: Range<u64>, kind: Kind) -> Asked {
        let mut objects = self.objects.lock();
        let queue = objects.entry(key).or_default();
        let (id, granted) = queue.enter(range, kind, queue.entries.len());
        drop(objects);
        Asked { lock: RangeLock { locks: Arc::clone(self), key, id }, granted }
    }

    /// Takes the place before all that wait: for work that one of those which hold a lock now waits for.
    pub(crate) fn ask_first(self: &Arc<Self>, key: Key, range: Range<u64>, kind: Kind) -> Asked {
        let mut objects = self.objects.lock();
        let queue = objects.entry(key).or_default();
        let (id, granted) = queue.enter_first(range, kind);
        drop(objects);
        Asked { lock: RangeLock { locks: Arc::clone(self), key, id }, granted }
    }

    /// Objects of a chain, and their ranges, of which changes are under way or wait for others.
    pub(crate) fn changes_under_way(&self, chain: u64) -> Vec<(ObjectName, Range<u64>)> {
        let objects = self.objects.lock();
        let changes = |((_, name), queue): (&Key, &Queue)| {
            let of_chain = |entry: &&Entry| entry.kind == Kind::Alone(chain);
            let ranges = queue.entries.iter().filter(of_chain);
            ranges.map(|entry| (*name, entry.range.clone())).collect::<Vec<_>>()
        };
        objects.iter().flat_map(changes).collect()
    }

    /// Ranges of an object of which changes are under way or wait for others.
    pub(crate) fn changes_of(&self, key: &Key) -> Vec<Range<u64>> {
        let objects = self.objects.lock();
        let changes = objects.get(key).into_iter().flat_map(|queue| &queue.entries);
        changes.filter(|entry| entry.kind != Kind::Shared).map(|entry| entry.range.clone()).collect()
    }

    /// True if a change of the object on another chain is under way.
    pub(crate) fn is_of_other_chain(&self, key: &Key, chain: u64) -> bool {
        let objects = self.objects.lock();
        let mut held = objects.get(key).into_iter().flat_map(|queue| &queue.entries);
        held.any(|entry| entry.waits.is_none() && matches!(entry.kind, Kind::Alone(other) if other != chain))
    }

    fn release(&self, key: &Key, id: u64) {
        let mut objects = self.objects.lock();
        let Some(queue) = objects.get_mut(key) else { return };
        queue.entries.retain(|entry| entry.id != id);
        if queue.entries.is_empty() {
            objects.remove(key);
            return;
        }
        queue.grant();
    }
}

impl Queue {
    /// Takes the place `at`. Returns its id, and what it waits for.
    fn enter(&mut self, range: Range<u64>, kind: Kind, at: usize) -> (u64, Option<oneshot::Receiver<()>>) {
        let id = self.next_id;
        self.next_id += 1;
        let mut entry = Entry { id, range, kind, waits: None };
        let mut granted = None;
        if self.entries[..at].iter().any(|earlier| earlier.meets(&entry)) {
            let (tell, told) = oneshot::channel();
            entry.waits = Some(tell);
            granted = Some(told);
        }
        self.entries.insert(at, entry);
        (id, granted)
    }

    fn enter_first(&mut self, range: Range<u64>, kind: Kind) -> (u64, Option<oneshot::Receiver<()>>) {
        // Locks that are held do not meet those that wait before them.
        self.entries.sort_by_key(|entry| entry.waits.is_some());
        let held = self.entries.partition_point(|entry| entry.waits.is_none());
        self.enter(range, kind, held)
    }

    /// Tells those that have to wait no longer.
    fn grant(&mut self) {
        for at in 0..self.entries.len() {
            let (earlier, rest) = self.entries.split_at_mut(at);
            let entry = &mut rest[0];
            if entry.waits.is_some() && !earlier.iter().any(|other| other.meets(entry)) {
                // A waiter that has gone away releases its lock as it goes.
                let _ = entry.waits.take().map(|tell| tell.send(()));
            }
        }
    }
}

/// A place in the queue. Dropping it gives the place up.
pub(crate) struct Asked {
    lock: RangeLock,
    granted: Option<oneshot::Receiver<()>>,
}

impl Asked {
    /// True if the lock has to be waited for.
    pub(crate) fn waits(&self) -> bool {
        self.granted.is_some()
    }

    /// Waits for the lock.
    pub(crate) async fn held(self) -> RangeLock {
        if let Some(granted) = self.granted {
            let _ = granted.await;
        }
        self.lock
    }
}

/// A lock, held until it is dropped.
pub(crate) struct RangeLock {
    locks: Arc<RangeLocks>,
    key: Key,
    id: u64,
}

impl RangeLock {
    /// Gives the range up for a lock of the whole object, before all that wait now: none of them sees what this
    /// one does in between.
    pub(crate) fn widen(mut self) -> Asked {
        let locks = Arc::clone(&self.locks);
        let mut objects = locks.objects.lock();
        let queue = objects.entry(self.key).or_default();
        let kind =
            queue.entries.iter().find(|entry| entry.id == self.id).map_or(Kind::Alone(0), |entry| entry.kind);
        queue.entries.retain(|entry| entry.id != self.id);
        let (id, granted) = queue.enter_first(WHOLE, kind);
        self.id = id;
        queue.grant();
        drop(objects);
        Asked { lock: self, granted }
    }
}

impl Drop for RangeLock {
    fn drop(&mut self) {
        self.locks.release(&self.key, self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(inode: u64) -> Key {
        (1, ObjectName { inode, column: 0, volume: 1, generation: 1 })
    }

    #[tokio::test]
    async fn overlapping_changes_take_turns_and_reads_share() {
        let locks = Arc::new(RangeLocks::default());
        let ask = |range, kind| locks.ask(key(1), range, kind);
        let first = ask(0..10, Kind::Alone(9));
        let beside = ask(10..20, Kind::Alone(9));
        let second = ask(5..15, Kind::Alone(9));
        let read = ask(0..5, Kind::Shared);
        let other = locks.ask(key(2), WHOLE, Kind::Alone(9));
        assert_eq!(
            [&first, &beside, &second, &read, &other].map(Asked::waits),
            [false, false, true, true, false]
        );
        let first = first.held().await;
        drop(first);
        let read = read.held().await;
        let more = ask(0..3, Kind::Shared);
        assert!(!more.waits(), "reads share");
        let late = ask(0..20, Kind::Alone(9));
        let behind = ask(0..1, Kind::Shared);
        assert!(behind.waits(), "a read does not pass a change that waits");
        drop(late);
        behind.held().await;
        drop(beside);
        second.held().await;
        drop((read, more, other));
        assert!(locks.objects.lock().is_empty(), "nothing stays");
    }

    #[tokio::test]
    async fn a_lock_that_is_widened_comes_before_those_that_wait() {
        let locks = Arc::new(RangeLocks::default());
        let ask = |range, kind| locks.ask(key(1), range, kind);
        let is_granted =
            |asked: &mut Asked| asked.granted.as_mut().is_none_or(|told| told.try_recv().is_ok());
        let (first, second) =
            (ask(0..10, Kind::Alone(9)).held().await, ask(10..20, Kind::Alone(9)).held().await);
        let mut waits = ask(0..20, Kind::Shared);
        let beyond = ask(20..30, Kind::Alone(9)).held().await;
        let mut first = first.widen();
        let mut second = second.widen();
        assert!(![&mut first, &mut second, &mut waits].into_iter().any(is_granted), "one writes beyond");
        drop(beyond);
        assert!(is_granted(&mut second) && !is_granted(&mut first));
        drop(second);
        assert!(is_granted(&mut first) && !is_granted(&mut waits));
        drop(first);
        assert!(is_granted(&mut waits));
        drop(waits);
        assert!(locks.objects.lock().is_empty(), "nothing stays");
    }

    #[tokio::test]
    async fn the_first_place_is_before_those_that_wait() {
        let locks = Arc::new(RangeLocks::default());
        let holder = locks.ask(key(1), 0..10, Kind::Alone(9)).held().await;
        let waits = locks.ask(key(1), WHOLE, Kind::Alone(9));
        assert!(locks.ask(key(1), 20..30, Kind::Shared).waits());
        let first = locks.ask_first(key(1), 20..30, Kind::Shared);
        let second = locks.ask_first(key(1), 5..15, Kind::Shared);
        assert_eq!([&first, &second, &waits].map(Asked::waits), [false, true, true]);
        drop(holder);
        drop(second.held().await);
        drop(first);
        waits.held().await;
        assert!(locks.objects.lock().is_empty(), "nothing stays");
    }
}
