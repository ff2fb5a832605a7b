//! One step of the machine: the store being changed, the stamp, and the counters, which are written once at the end.

use serde::Serialize;
use store::{Edit, StoreError, View};

use crate::record::{Counters, encode, encode_data};
use crate::{ClientId, Error, Inode, InodeId, Stamp, Time, keys, read};

/// Why an operation stopped before it changed anything.
#[derive(Debug)]
pub(crate) enum Stop {
    /// What was asked cannot be.
    Refused(Error),
    /// Other clients have delegations of this file.
    Delegated(InodeId),
    /// The store failed; the batch is lost.
    Failed(StoreError),
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

/// The store, as one command changes it. Operations check everything first and put afterwards: a refusal after a put
/// would leave half of a change behind, so [`Step::refuse`] asserts that there was none.
pub(crate) struct Step<'a> {
    edit: &'a mut dyn Edit,
    stamp: Stamp,
    caller: Option<ClientId>,
    counters: Option<Counters>,
    changed: bool,
}

impl<'a> Step<'a> {
    pub fn new(edit: &'a mut dyn Edit, stamp: Stamp) -> Self {
        Self { edit, stamp, caller: None, counters: None, changed: false }
    }

    /// The step is asked for by this client.
    pub fn of(mut self, caller: Option<ClientId>) -> Self {
        self.caller = caller;
        self
    }

    /// The client that asks for the step; none: NFSv3, or the cluster itself.
    pub fn caller(&self) -> Option<ClientId> {
        self.caller
    }

    pub fn now(&self) -> Time {
        self.stamp.time
    }

    pub fn random(&self) -> u64 {
        self.stamp.random
    }

    /// 32 random bits, not all zero.
    pub fn generation(&self) -> u32 {
        (self.stamp.random as u32).max(1)
    }

    pub fn view(&self) -> &dyn View {
        &*self.edit
    }

    pub fn put<T: Serialize>(&mut self, key: &[u8], record: &T) -> Result<(), StoreError> {
        self.changed = true;
        self.edit.put(key, &encode(key, record)?)
    }

    /// Puts data of a small file.
    pub fn put_data(&mut self, key: &[u8], data: &[u8]) -> Result<(), StoreError> {
        self.changed = true;
        self.edit.put(key, &encode_data(key, data))
    }

    /// Puts a key that says all by being there.
    pub fn mark(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.changed = true;
        self.edit.put(key, &[])
    }

    pub fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.changed = true;
        self.edit.delete(key)
    }

    /// Changes the counters, and returns what `change` took from them.
    pub fn count<T>(&mut self, change: impl FnOnce(&mut Counters) -> T) -> Result<T, StoreError> {
        let mut counters = match self.counters.take() {
            Some(counters) => counters,
            None => read::counters(self.view())?,
        };
        let taken = change(&mut counters);
        self.counters = Some(counters);
        self.changed = true;
        Ok(taken)
    }

    /// The counters as they are now.
    pub fn counters(&self) -> Result<Counters, StoreError> {
        match &self.counters {
            Some(counters) => Ok(counters.clone()),
            None => read::counters(self.view()),
        }
    }

    /// Writes the counters. Every step that was not refused ends here.
    pub fn finish(&mut self) -> Result<(), StoreError> {
        match self.counters.take() {
            Some(counters) => self.put(&keys::counters(), &counters),
            None => Ok(()),
        }
    }

    /// A step that did nothing ends here.
    pub fn undone(&self) {
        assert!(!self.changed, "given up after a change");
    }

    /// A refused step ends here.
    pub fn refuse(&self, error: Error) -> Error {
        assert!(!self.changed, "refused with {error:?} after a change");
        error
    }

    /// The inode, which a handle names.
    pub fn inode(&self, inode: InodeId) -> Result<Inode, Stop> {
        Ok(read::inode(self.view(), inode)?.ok_or(Error::Stale)?)
    }

    /// The directory, which a handle names.
    pub fn directory(&self, dir: InodeId) -> Result<Inode, Stop> {
        let inode = self.inode(dir)?;
        if inode.directory().is_none() {
            return Err(Error::NotDirectory.into());
        }
        Ok(inode)
    }

    pub fn put_inode(&mut self, inode: &Inode) -> Result<(), StoreError> {
        self.put(&keys::inode(inode.id), inode)
    }
}
