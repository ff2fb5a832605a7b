//! Plan of one command: its changes, collected before any of them is made.
//!
//! ```text
//! view ─▶ Plan: reads, checks, puts ─┬▶ the end ─▶ Changes ─▶ commit ─▶ edit
//!           ▲ reads its own puts     └▶ Stop: dropped with all its puts
//! ```
//!
//! **A refusal changes nothing, and the compiler ensures that.** A command sees a [`Plan`], which has a view
//! of the store and no [`Edit`]: its puts and deletes are kept in memory, where its own later reads find
//! them. It may be refused at any point. Only [`Changes::commit`] has an edit, and it knows no command: it
//! fails only if the store fails.
//!
//! **Cost.** A create has six changes, in one node of a B-tree.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};

use serde::Serialize;
use store::{Edit, StoreError, View, Visitor};

use crate::keys::Key;
use crate::record::{Counters, encode, encode_data, stamp_of};
use crate::volume::quota::Charge;
use crate::{ClientId, Error, Inode, InodeId, RECORDS_OF_COMMAND_MAX, Stamp, Time, VolumeId, keys, read};

/// Reason for which a command is not applied.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The request is refused.
    Refused(Error),
    /// Other clients have delegations of this file.
    Delegated(InodeId),
    /// The store contradicts itself, on every replica: a fault of this program.
    Broken(Broken),
    /// The store failed; the batch is lost.
    Failed(StoreError),
}

/// Broken invariant of the store, found by a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Broken(pub &'static str);

impl From<Broken> for Stop {
    fn from(broken: Broken) -> Self {
        Stop::Broken(broken)
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Refused(error)
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Stop::Failed(error)
    }
}

/// Changes of one command so far. As a [`View`] it shows the store after these changes.
#[derive(Clone)]
pub(crate) struct Plan<'a> {
    base: &'a dyn View,
    stamp: Stamp,
    caller: Option<ClientId>,
    /// Counters, if they were changed: they become one change at the end.
    counters: Option<Counters>,
    changes: Changes,
    /// What inodes were charged with before their first change; none: they did not exist.
    touched: BTreeMap<InodeId, Option<Charge>>,
    /// True after a change of a record that a snapshot has.
    is_read_only: bool,
    /// Stamps of records that were read: see `snapshot/history.rs`.
    stamps: RefCell<BTreeMap<Key, u32>>,
}

/// Changes of a command, in the order of their keys: the new value of each key; none: a deletion.
#[derive(Clone, Default)]
pub struct Changes {
    records: BTreeMap<Key, Option<Vec<u8>>>,
    leaves_work: bool,
}

impl Changes {
    /// True if the command leaves work to the leader: objects to remove or to fence, or leftovers. Requests may wait
    /// for it. Truncations are none: the metaserver with the request has the leader do them.
    #[must_use]
    pub fn leaves_work(&self) -> bool {
        self.leaves_work
    }

    /// Makes the changes in the store.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn commit(self, edit: &mut dyn Edit) -> Result<(), StoreError> {
        for (key, change) in self.records {
            match change {
                Some(value) => edit.put(&key, &value)?,
                None => edit.delete(&key)?,
            }
        }
        Ok(())
    }
}

impl IntoIterator for Changes {
    type Item = (Vec<u8>, Option<Vec<u8>>);
    type IntoIter = std::collections::btree_map::IntoIter<Vec<u8>, Option<Vec<u8>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.records.into_iter()
    }
}

impl<'a> Plan<'a> {
    /// Makes an empty plan for a command with this stamp.
    pub fn new(base: &'a dyn View, stamp: Stamp) -> Self {
        let (changes, touched) = (Changes::default(), BTreeMap::new());
        let stamps = RefCell::default();
        Self { base, stamp, caller: None, counters: None, changes, touched, is_read_only: false, stamps }
    }

    /// Sets the client that requested the command.
    pub fn of(mut self, caller: ClientId) -> Self {
        self.caller = Some(caller);
        self
    }

    /// Client that requested the command; none: NFSv3, or the cluster itself.
    pub fn caller(&self) -> Option<ClientId> {
        self.caller
    }

    /// Time of the stamp.
    pub fn now(&self) -> Time {
        self.stamp.time
    }

    /// Random bits of the stamp.
    pub fn random(&self) -> u64 {
        self.stamp.random
    }

    /// 32 random bits, not all zero.
    pub fn generation(&self) -> u32 {
        (self.stamp.random as u32).max(1)
    }

    /// View of the store before the changes.
    pub fn base(&self) -> &'a dyn View {
        self.base
    }

    /// Stamp that a record was read with, if it was, and has one.
    pub fn stamp_read(&self, key: &[u8]) -> Option<u32> {
        self.stamps.borrow().get(key).copied()
    }

    /// True if the command changes a record of a snapshot, which none may.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Volumes whose records are changed, of those that snapshots show.
    pub fn changed_volumes(&self) -> BTreeSet<VolumeId> {
        let [first, last] = keys::SHOWN;
        let changed = self.changes.records.range(vec![first]..vec![last + 1]);
        changed.map(|(key, _)| InodeId(keys::number(key, 1)).volume()).collect()
    }

    /// Changes of a volume's records, of those that snapshots show.
    pub fn changed(&self, volume: VolumeId) -> Vec<(Key, Option<Vec<u8>>)> {
        let [first, last] = keys::SHOWN;
        let changes = (first..=last).flat_map(|tag| {
            let (from, to) = keys::of_volume(tag, volume);
            self.changes.records.range(from..to)
        });
        changes.map(|(key, change)| (key.clone(), change.clone())).collect()
    }

    /// View of the store after the changes.
    pub fn view(&self) -> &dyn View {
        self
    }

    /// Puts a record.
    pub fn put<T: Serialize>(&mut self, key: &[u8], record: &T) -> Result<(), StoreError> {
        let value = encode(key, record)?;
        self.change(key, Some(value));
        Ok(())
    }

    /// Puts a record, or deletes its key if the record has the default value.
    pub fn put_or_delete<T>(&mut self, key: &[u8], record: &T) -> Result<(), StoreError>
    where
        T: Serialize + Default + PartialEq,
    {
        if *record != T::default() {
            return self.put(key, record);
        }
        self.delete(key);
        Ok(())
    }

    /// Puts inline data.
    pub fn put_data(&mut self, key: &[u8], data: &[u8]) {
        self.change(key, Some(encode_data(key, data)));
    }

    /// Puts a key without a record, a mark.
    pub fn mark(&mut self, key: &[u8]) {
        self.change(key, Some(vec![]));
    }

    /// Deletes a key, if it exists.
    pub fn delete(&mut self, key: &[u8]) {
        self.change(key, None);
    }

    /// Puts a value as it is.
    pub fn put_value(&mut self, key: &[u8], value: Vec<u8>) {
        self.change(key, Some(value));
    }

    fn change(&mut self, key: &[u8], value: Option<Vec<u8>>) {
        self.is_read_only |= keys::inode_of(key).is_some_and(InodeId::is_read_only);
        self.changes.records.insert(key.to_vec(), value);
    }

    /// Notes that the command leaves work to the leader: see [`Changes::leaves_work`].
    pub fn leave_work(&mut self) {
        self.changes.leaves_work = true;
    }

    /// Changes the counters, and returns the result of `change`.
    pub fn count<T>(&mut self, change: impl FnOnce(&mut Counters) -> T) -> Result<T, StoreError> {
        let mut counters = self.counters()?;
        let taken = change(&mut counters);
        self.counters = Some(counters);
        Ok(taken)
    }

    /// Counters after the changes.
    pub fn counters(&self) -> Result<Counters, StoreError> {
        match &self.counters {
            Some(counters) => Ok(counters.clone()),
            None => read::counters(self.view()),
        }
    }

    /// True if the command has changed as many records as it may: the rest of its work becomes a leftover.
    pub fn is_full(&self) -> bool {
        self.changes.records.len() >= RECORDS_OF_COMMAND_MAX
    }

    /// Returns the changes, with the counters.
    pub fn finish(mut self) -> Result<Changes, StoreError> {
        if let Some(counters) = self.counters.take() {
            self.put(&keys::counters(), &counters)?;
        }
        Ok(self.changes)
    }

    /// Returns an inode; `Stale` if it does not exist.
    pub fn inode(&self, inode: InodeId) -> Result<Inode, Stop> {
        Ok(read::inode(self.view(), inode)?.ok_or(Error::Stale)?)
    }

    /// Returns a directory; an error if the inode is not one.
    pub fn directory(&self, dir: InodeId) -> Result<Inode, Stop> {
        let inode = self.inode(dir)?;
        if inode.directory().is_none() {
            return Err(Error::NotDirectory.into());
        }
        Ok(inode)
    }

    /// Returns a directory whose entries the command changes; `ReadOnly` in a snapshot.
    pub fn directory_to_change(&self, dir: InodeId) -> Result<Inode, Stop> {
        let directory = self.directory(dir)?;
        if dir.is_read_only() { Err(Error::ReadOnly.into()) } else { Ok(directory) }
    }

    /// Puts an inode. Its epochs are at least those of the record before: another step of the command may have
    /// fenced the file after `inode` was read.
    pub fn put_inode(&mut self, inode: &Inode) -> Result<(), StoreError> {
        if cfg!(debug_assertions)
            && let Some(before) = read::inode(self.view(), inode.id)?
        {
            let epochs = |inode: &Inode| (inode.epoch, inode.layout_epoch);
            assert!(epochs(inode) >= epochs(&before), "an epoch went back: {before:?}, then {inode:?}");
        }
        self.touch(inode.id)?;
        self.put(&keys::inode(inode.id), inode)
    }

    /// Deletes an inode.
    pub fn delete_inode(&mut self, inode: InodeId) -> Result<(), StoreError> {
        self.touch(inode)?;
        self.delete(&keys::inode(inode));
        Ok(())
    }

    /// Notes what an inode is charged with before its first change.
    fn touch(&mut self, inode: InodeId) -> Result<(), StoreError> {
        if !self.touched.contains_key(&inode) {
            let before = read::inode(self.view(), inode)?.as_ref().map(Charge::from);
            self.touched.insert(inode, before);
        }
        Ok(())
    }

    /// True if no inode was changed.
    pub fn has_touched_none(&self) -> bool {
        self.touched.is_empty()
    }

    /// Takes what the changed inodes were charged with before.
    pub fn take_touched(&mut self) -> BTreeMap<InodeId, Option<Charge>> {
        std::mem::take(&mut self.touched)
    }
}

impl View for Plan<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.changes.records.get(key) {
            Some(change) => Ok(change.clone()),
            None => {
                let value = self.base.get(key)?;
                match value.as_deref().map_or(0, stamp_of) {
                    0 => {}
                    stamp => drop(self.stamps.borrow_mut().insert(key.to_vec(), stamp)),
                }
                Ok(value)
            }
        }
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut Visitor<'_>) -> Result<(), StoreError> {
        if from >= to {
            return Ok(());
        }
        let range = (Bound::Included(from), Bound::Excluded(to));
        let mut changes = self.changes.records.range::<[u8], _>(range).peekable();
        if changes.peek().is_none() {
            return self.base.scan(from, to, visit); // the usual case
        }
        let mut stopped = false;
        self.base.scan(from, to, &mut |key, value| {
            // Changed keys below this one come first; a change of this key replaces its value.
            while let Some((changed, change)) = changes.next_if(|(changed, _)| changed.as_slice() <= key) {
                let flow = visit_change(changed, change.as_deref(), visit);
                if flow.is_break() || changed == key {
                    stopped = flow.is_break();
                    return flow;
                }
            }
            let flow = visit(key, value);
            stopped = flow.is_break();
            flow
        })?;
        if !stopped {
            let _ = changes.try_for_each(|(key, change)| visit_change(key, change.as_deref(), visit));
        }
        Ok(())
    }
}

/// Visits a change unless it deletes its key.
fn visit_change(key: &[u8], change: Option<&[u8]>, visit: &mut Visitor<'_>) -> ControlFlow<()> {
    change.map_or(ControlFlow::Continue(()), |value| visit(key, value))
}

#[cfg(test)]
mod tests {
    use store::{Durability, MemoryStore, Store};

    use super::*;

    fn all(view: &dyn View, last: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut found = vec![];
        let mut visit = |key: &[u8], value: &[u8]| {
            found.push((key.to_vec(), value.to_vec()));
            if key == last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        view.scan(b"a", b"z", &mut visit).expect("scans");
        found
    }

    #[test]
    fn a_plan_reads_as_the_store_will_be_and_leaves_it_as_it_is_until_it_is_committed() {
        let store = MemoryStore::new();
        for round in 0..60_u64 {
            let before = all(&*store.snapshot().expect("a snapshot"), b"");
            store
                .batch(Durability::Deferred, &mut |edit| {
                    let mut plan = Plan::new(&*edit, Stamp::default());
                    for n in 0..5 {
                        let key = [b'b' + ((round * 7 + n * 5) % 20) as u8];
                        match (round + n) % 4 {
                            0 => plan.delete(&key),
                            _ => plan.put(&key, &(round, n))?,
                        }
                        let seen = all(&plan, b"");
                        assert!(seen.is_sorted());
                        for (at, (key, value)) in seen.iter().enumerate() {
                            assert_eq!(plan.get(key)?.as_ref(), Some(value));
                            assert_eq!(all(&plan, key), seen[..=at], "a scan stops where it is told");
                        }
                    }
                    let seen = all(&plan, b"");
                    let changes = plan.finish()?;
                    assert_eq!(all(edit, b""), before);
                    if round % 3 > 0 {
                        changes.commit(edit)?;
                        assert_eq!(all(edit, b""), seen);
                    }
                    Ok(())
                })
                .expect("a batch");
        }
    }
}
