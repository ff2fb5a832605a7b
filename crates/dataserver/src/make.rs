//! Making and removing objects. Only a metaserver asks for either: a WRITE never makes an object, so that one
//! of a removed file cannot come back, and so that an object which is not found is known to be lost.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::Ordering;

use std::time::Duration;

use crate::object::ObjectName;
use crate::objects::{ObjectError, Objects, answer_to};

impl Objects {
    /// Makes the objects, empty and durable. One that is there stays as it is.
    ///
    /// # Errors
    /// [`ObjectError`]: `Stale` for one that was removed. Some of the objects may have been made.
    pub fn make(&self, names: &[ObjectName]) -> Result<(), ObjectError> {
        self.make_on(names, 0)
    }

    /// [`Objects::make`] on a chain; 0: without copies.
    pub(crate) fn make_on(&self, names: &[ObjectName], chain: u64) -> Result<(), ObjectError> {
        self.check()?;
        let (mut missing, mut noted) = (Vec::new(), 0);
        for name in names {
            let _name = self.name_lock(name).lock();
            self.check_not_removed(name)?;
            let is_there = self.root.contains(&name.path()).map_err(|e| self.trouble("look for", name, e))?;
            if !is_there {
                noted = self.note_new(name, chain)?;
                missing.push(name);
            }
        }
        // Before they are there: the next process must know of each that the other members may not have.
        self.sync_notes(noted)?;
        for name in missing {
            self.create(name)?;
        }
        // An object that was there may have been made by a call that has not synced the directory yet. An empty file is
        // its directory entry and its inode, and a file system has both durable or none.
        let directories: BTreeSet<_> = names.iter().map(ObjectName::directory).collect();
        directories.into_iter().try_for_each(|d| self.sync_directory(d))
    }

    fn create(&self, name: &ObjectName) -> Result<(), ObjectError> {
        let _name = self.name_lock(name).lock();
        self.check_not_removed(name)?;
        let mut made = self.disk.create_file(self.root.file(), &name.path());
        if made.as_ref().is_err_and(|e| answer_to(e) == ObjectError::NoSpace) {
            self.reclaim_some()?;
            made = self.disk.create_file(self.root.file(), &name.path());
        }
        match made {
            Ok(_) => {
                self.count.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(e) => Err(self.trouble("make", name, e)),
        }
    }

    /// `Stale` for an object that was removed. The caller has the lock of its name.
    pub(crate) fn check_not_removed(&self, name: &ObjectName) -> Result<(), ObjectError> {
        if self.removed.lock().contains(name) { Err(ObjectError::Stale) } else { Ok(()) }
    }

    /// Removes the objects, durably: they go to the target's trash. One that is not there is no failure.
    ///
    /// # Errors
    /// [`ObjectError`]; some of the objects may have been removed.
    pub fn remove(&self, names: &[ObjectName]) -> Result<(), ObjectError> {
        self.check()?;
        let mut directories = BTreeSet::new();
        for name in names {
            let _name = self.name_lock(name).lock();
            self.removed.lock().insert(*name);
            self.open.lock().remove(name);
            match self.trash.own().take(&self.root, &name.path(), &name.to_string()) {
                Ok(()) => {
                    self.count.fetch_sub(1, Ordering::Relaxed);
                }
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(self.trouble("remove", name, e)),
            }
            self.remove_sums(name)?;
            directories.insert(name.directory());
        }
        directories.into_iter().try_for_each(|d| self.sync_directory(d))
    }

    /// Takes room for `bytes`, from the trash if the disk has no other.
    pub(crate) fn take_room(&self, bytes: u64) -> Result<(), ObjectError> {
        loop {
            if self.capacity.take(bytes, || self.usable_bytes().ok()) {
                return Ok(());
            }
            self.reclaim(bytes.max(RECLAIM_BYTES))?;
        }
    }

    /// Frees some room from the trash; `NoSpace` if it has nothing.
    pub(crate) fn reclaim_some(&self) -> Result<(), ObjectError> {
        self.reclaim(RECLAIM_BYTES)
    }

    /// Frees about as many bytes from the trash; `NoSpace` if it has nothing.
    fn reclaim(&self, bytes: u64) -> Result<(), ObjectError> {
        match self.trash.reclaim(bytes) {
            Ok(0) => Err(ObjectError::NoSpace),
            Ok(_) => Ok(()),
            Err(error) => {
                tracing::error!(target = %self.root.path().display(), %error, "cannot empty the trash");
                Err(ObjectError::NoSpace)
            }
        }
    }

    /// Sets the time that removed objects are kept in the trash; zero: not at all.
    pub fn set_trash_time(&self, time: Duration) {
        self.trash.own().set_time(time);
    }

    /// Removes for good the objects that have been in the trash for long enough. Blocks.
    pub fn sweep_trash(&self) {
        if self.check().is_err() {
            return; // it may be another disk's by now, or hang
        }
        if let Err(error) = self.trash.own().sweep() {
            tracing::warn!(target = %self.root.path().display(), %error, "cannot empty the trash, retrying");
        }
    }
}

/// Freed from the trash at a time, so that not each write has to.
const RECLAIM_BYTES: u64 = 256 << 20;
