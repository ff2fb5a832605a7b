//! The plan of one command: the changes that it will make, gathered before any of them is made.
//!
//! ```text
//! view ─▶ Plan: reads, checks, puts ─┬▶ the end ─▶ Changes ─▶ commit ─▶ edit
//!           ▲ reads its own puts     └▶ Stop: dropped with all that it has put
//! ```
//!
//! **A refusal changes nothing, and the compiler holds that.** A command sees a [`Plan`], which has a view of
//! the store and no [`Edit`]: its puts and deletes are kept in memory, where its own later reads find them.
//! It may be refused at any point. Only [`Changes::commit`] has an edit, and it knows no command: it can fail
//! when the store fails, and in no other way.
//!
//! **Cost.** A create has six changes, in one node of a B-tree.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use serde::Serialize;
use store::{Edit, StoreError, View, Visitor};

use crate::keys::Key;
use crate::record::{Counters, encode, encode_data};
use crate::{ClientId, Error, Inode, InodeId, RECORDS_OF_COMMAND_MAX, Stamp, Time, keys, read};

/// Reason why a command is not carried out.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The request cannot be granted.
    Refused(Error),
    /// Other clients have delegations of this file.
    Delegated(InodeId),
    /// The store contradicts itself, as it does on every replica: a fault of this program.
    Broken(Broken),
    /// The store failed; the batch is lost.
    Failed(StoreError),
}

/// Invariant of the store that a command found broken.
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

/// The changes of one command so far. As a [`View`] it is the store as it will be after them.
#[derive(Clone)]
pub(crate) struct Plan<'a> {
    base: &'a dyn View,
    stamp: Stamp,
    caller: Option<ClientId>,
    /// The counters, once they are changed: they become one change at the end.
    counters: Option<Counters>,
    changes: Changes,
}

/// Changes of a command, in the order of their keys: the new value of each key; none: the key is deleted.
#[derive(Clone, Default)]
pub struct Changes(BTreeMap<Key, Option<Vec<u8>>>);

impl Changes {
    /// Makes the changes.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn commit(self, edit: &mut dyn Edit) -> Result<(), StoreError> {
        for (key, change) in self {
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
        self.0.into_iter()
    }
}

impl<'a> Plan<'a> {
    /// A plan without changes, of a command with this stamp.
    pub fn new(base: &'a dyn View, stamp: Stamp) -> Self {
        Self { base, stamp, caller: None, counters: None, changes: Changes::default() }
    }

    /// The plan, of a command that this client asks for.
    pub fn of(mut self, caller: ClientId) -> Self {
        self.caller = Some(caller);
        self
    }

    /// The client that asks for the command; none: NFSv3, or the cluster itself.
    pub fn caller(&self) -> Option<ClientId> {
        self.caller
    }

    /// The time of the stamp.
    pub fn now(&self) -> Time {
        self.stamp.time
    }

    /// The random bits of the stamp.
    pub fn random(&self) -> u64 {
        self.stamp.random
    }

    /// 32 random bits, not all zero.
    pub fn generation(&self) -> u32 {
        (self.stamp.random as u32).max(1)
    }

    /// The store as it will be after the changes.
    pub fn view(&self) -> &dyn View {
        self
    }

    /// Puts a record.
    pub fn put<T: Serialize>(&mut self, key: &[u8], record: &T) -> Result<(), StoreError> {
        let value = encode(key, record)?;
        self.change(key, Some(value));
        Ok(())
    }

    /// Puts a record, or deletes its key when the record is that of nothing.
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

    /// Puts data of a small file.
    pub fn put_data(&mut self, key: &[u8], data: &[u8]) {
        self.change(key, Some(encode_data(key, data)));
    }

    /// Puts a key that has no record: its presence says all.
    pub fn mark(&mut self, key: &[u8]) {
        self.change(key, Some(vec![]));
    }

    /// Deletes a key, if it is there.
    pub fn delete(&mut self, key: &[u8]) {
        self.change(key, None);
    }

    fn change(&mut self, key: &[u8], value: Option<Vec<u8>>) {
        self.changes.0.insert(key.to_vec(), value);
    }

    /// Changes the counters, and returns what `change` took from them.
    pub fn count<T>(&mut self, change: impl FnOnce(&mut Counters) -> T) -> Result<T, StoreError> {
        let mut counters = self.counters()?;
        let taken = change(&mut counters);
        self.counters = Some(counters);
        Ok(taken)
    }

    /// The counters as they will be.
    pub fn counters(&self) -> Result<Counters, StoreError> {
        match &self.counters {
            Some(counters) => Ok(counters.clone()),
            None => read::counters(self.view()),
        }
    }

    /// Whether the command has changed as many records as it should: the rest of its work is a leftover.
    pub fn is_full(&self) -> bool {
        self.changes.0.len() >= RECORDS_OF_COMMAND_MAX
    }

    /// The changes, with that of the counters.
    pub fn finish(mut self) -> Result<Changes, StoreError> {
        if let Some(counters) = self.counters.take() {
            self.put(&keys::counters(), &counters)?;
        }
        Ok(self.changes)
    }

    /// The inode that a handle names.
    pub fn inode(&self, inode: InodeId) -> Result<Inode, Stop> {
        Ok(read::inode(self.view(), inode)?.ok_or(Error::Stale)?)
    }

    /// The directory that a handle names.
    pub fn directory(&self, dir: InodeId) -> Result<Inode, Stop> {
        let inode = self.inode(dir)?;
        if inode.directory().is_none() {
            return Err(Error::NotDirectory.into());
        }
        Ok(inode)
    }

    /// Puts an inode.
    pub fn put_inode(&mut self, inode: &Inode) -> Result<(), StoreError> {
        self.put(&keys::inode(inode.id), inode)
    }
}

impl View for Plan<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.changes.0.get(key) {
            Some(change) => Ok(change.clone()),
            None => self.base.get(key),
        }
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut Visitor<'_>) -> Result<(), StoreError> {
        if from >= to {
            return Ok(());
        }
        let range = (Bound::Included(from), Bound::Excluded(to));
        let mut changes = self.changes.0.range::<[u8], _>(range).peekable();
        if changes.peek().is_none() {
            return self.base.scan(from, to, visit); // nearly always
        }
        let mut stopped = false;
        self.base.scan(from, to, &mut |key, value| {
            // Changed keys below this one come first; a change of this one hides it.
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
