//! Making and removing objects. Only a metaserver asks for either: a WRITE never makes an object, so that one
//! of a removed file cannot come back, and so that an object which is not found is known to be lost.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::Ordering;

use std::time::Duration;

use crate::epoch::{Epoch, Mark, ObjectRef, Placement};
use crate::object::ObjectName;
use crate::objects::{ObjectError, Objects, answer_to};

/// Attempts of a MAKE that removals cross.
const MAKE_ATTEMPTS: usize = 3;

/// An object that is made if it is missing.
struct New {
    name: ObjectName,
    /// Its chain; 0: it has no copies.
    chain: u64,
    /// Epoch of the MAKE; none: the head of the chain has the object, or a truncation makes it.
    by: Option<Epoch>,
}

impl Objects {
    /// Makes the objects of MAKE calls, empty and durable, with the marks of their calls. One that is there stays as it
    /// is, unless the call is of a later placement or names another chain: see [`Placement`].
    ///
    /// # Errors
    /// [`ObjectError`]: `Stale` for one whose file was removed; `StaleEpoch` if the call is from before the object came
    /// to its chain or was removed, or if the object has data and the call's epoch on another chain. Some of the
    /// objects may have been made.
    pub fn make_of_calls(&self, objects: &[ObjectRef]) -> Result<(), ObjectError> {
        for _ in 1..MAKE_ATTEMPTS {
            match self.try_to_make(objects) {
                Err(ObjectError::Busy) => {}
                made => return made,
            }
        }
        self.try_to_make(objects)
    }

    /// `Busy` if a removal came in between that the MAKE is later than, too.
    fn try_to_make(&self, objects: &[ObjectRef]) -> Result<(), ObjectError> {
        let new = |object: &ObjectRef| {
            let ObjectRef { name, epoch } = *object;
            New { name, chain: epoch.chain, by: Some(epoch) }
        };
        self.make_missing(&objects.iter().map(new).collect::<Vec<_>>())?;
        objects.iter().try_for_each(|object| self.place(*object))?;
        self.sync_directories(objects.iter().map(|object| &object.name))
    }

    /// Makes the objects, empty and durable, without marks. One that is there stays as it is.
    ///
    /// # Errors
    /// [`ObjectError`]: `Stale` for one that was removed. Some of the objects may have been made.
    pub fn make(&self, names: &[ObjectName]) -> Result<(), ObjectError> {
        self.make_on(names, 0)
    }

    /// [`Objects::make`] on a chain; 0: without copies.
    pub(crate) fn make_on(&self, names: &[ObjectName], chain: u64) -> Result<(), ObjectError> {
        self.make_missing(
            &names.iter().map(|name| New { name: *name, chain, by: None }).collect::<Vec<_>>(),
        )?;
        self.sync_directories(names.iter())
    }

    /// Makes the files that are missing; not durably.
    fn make_missing(&self, all: &[New]) -> Result<(), ObjectError> {
        self.check()?;
        let (mut missing, mut noted) = (Vec::new(), 0);
        for new in all {
            let name = &new.name;
            let _name = self.name_lock(name).lock();
            self.check_new(new)?;
            let is_there = self.root.contains(&name.path()).map_err(|e| self.trouble("look for", name, e))?;
            if !is_there {
                noted = self.note_new(name, new.chain)?;
                missing.push(new);
            }
        }
        // Before they are there: the next process must know of each that the other members may not have.
        self.sync_notes(noted)?;
        missing.into_iter().try_for_each(|new| self.create(new))
    }

    /// An object that was there may have been made by a call that has not synced the directory yet. An empty file is its
    /// directory entry and its inode, and a file system has both durable or none.
    fn sync_directories<'a>(&self, of: impl Iterator<Item = &'a ObjectName>) -> Result<(), ObjectError> {
        let directories: BTreeSet<_> = of.map(ObjectName::directory).collect();
        directories.into_iter().try_for_each(|d| self.sync_directory(d))
    }

    /// Does with an object that is there what a MAKE says.
    fn place(&self, object: ObjectRef) -> Result<(), ObjectError> {
        let ObjectRef { name, epoch } = object;
        let open = match self.find(name) {
            // It was there a moment ago.
            Err(ObjectError::Stale | ObjectError::Lost) => {
                self.admit(object)?;
                return Err(ObjectError::Busy);
            }
            found => found?,
        };
        open.gate.replace(|stored| {
            let has_data =
                || open.stat().map(|stat| stat.len > 0).map_err(|e| self.trouble("look at", &name, e));
            match stored.after_make(epoch) {
                Placement::Past => Err(ObjectError::StaleEpoch),
                Placement::IfEmpty(_) if has_data()? => Err(ObjectError::StaleEpoch),
                Placement::Stays(same) if same == stored => Ok(stored),
                Placement::Stays(new) | Placement::IfEmpty(new) => self.store_mark(&name, &open, new),
                Placement::Anew(new) => {
                    self.set_length(name, 0)?;
                    self.store_mark_of_shortened(&name, &open, new)
                }
            }
        })
    }

    fn create(&self, new: &New) -> Result<(), ObjectError> {
        let name = &new.name;
        let _name = self.name_lock(name).lock();
        self.check_new(new)?;
        let mut made = self.create_file(new);
        if made.as_ref().is_err_and(|e| answer_to(e) == ObjectError::NoSpace) {
            self.reclaim_some()?;
            made = self.create_file(new);
        }
        match made {
            Ok(()) => {
                self.count.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(e) => Err(self.trouble("make", name, e)),
        }
    }

    /// Of a MAKE with its mark, where the disk can do so; else it gets the mark when it is placed.
    fn create_file(&self, new: &New) -> io::Result<()> {
        let (dir, path) = (self.root.file(), new.name.path());
        let placement = new.by.map(|epoch| Mark::default().after_make(epoch));
        if let Some(Placement::Stays(mark)) = placement
            && self.disk.create_marked(dir, &path, &mark.to_bytes())?
        {
            return Ok(());
        }
        self.disk.create_file(dir, &path).map(drop)
    }

    /// The caller has the lock of the name.
    fn check_new(&self, New { name, by, .. }: &New) -> Result<(), ObjectError> {
        match *by {
            Some(epoch) => self.admit(ObjectRef { name: *name, epoch }),
            None => self.check_not_removed(name),
        }
    }

    /// Whether a MAKE may make this object.
    ///
    /// # Errors
    /// `Stale` if its file was removed, `StaleEpoch` if the call is from before the object was removed.
    pub(crate) fn admit(&self, object: ObjectRef) -> Result<(), ObjectError> {
        self.removed.lock().admit(object)
    }

    /// `Stale` for an object that was removed. The caller has the lock of its name.
    pub(crate) fn check_not_removed(&self, name: &ObjectName) -> Result<(), ObjectError> {
        if self.removed.lock().contains(name) { Err(ObjectError::Stale) } else { Ok(()) }
    }

    /// Removes the objects of files that are removed, durably: they go to the target's trash. One that is not there is no
    /// failure.
    ///
    /// # Errors
    /// [`ObjectError`]; some of the objects may have been removed.
    pub fn remove(&self, names: &[ObjectName]) -> Result<(), ObjectError> {
        self.check()?;
        for name in names {
            let _name = self.name_lock(name).lock();
            self.removed.lock().insert(*name);
            self.take_away(name)?;
            self.remove_sums(name)?;
        }
        self.sync_directories(names.iter())
    }

    /// Removes those of the objects whose marks `is_meant` accepts, as [`Objects::remove`] does, when the calls under
    /// way at each have ended. A MAKE with the epoch that is given here, or a later one, brings an object back. One that
    /// cannot be opened stays.
    ///
    /// # Errors
    /// [`ObjectError`]; some of the objects may have been removed.
    pub(crate) fn remove_meant(
        &self,
        objects: &[ObjectRef],
        mut is_meant: impl FnMut(Mark, Epoch) -> bool,
    ) -> Result<(), ObjectError> {
        self.check()?;
        let mut removed = Vec::new();
        for object in objects {
            let Ok(open) = self.find(object.name) else { continue };
            let mut sums = Ok(());
            open.gate.close(|mark| {
                if !is_meant(mark, object.epoch) {
                    return Ok(false);
                }
                let _name = self.name_lock(&object.name).lock();
                self.take_away(&object.name)?;
                self.removed.lock().insert_until(*object);
                removed.push(&object.name);
                sums = self.remove_sums(&object.name);
                Ok(true)
            })?;
            sums?;
        }
        self.sync_directories(removed.into_iter())
    }

    /// Moves the object to the trash, without its sums. The caller has the lock of the name.
    fn take_away(&self, name: &ObjectName) -> Result<(), ObjectError> {
        match self.trash.own().take(&self.root, &name.path(), &name.to_string()) {
            Ok(()) => {
                self.count.fetch_sub(1, Ordering::Relaxed);
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(self.trouble("remove", name, e)),
        }
        self.open.lock().remove(name);
        self.remove_attachment(name)
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

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::{Arc, OnceLock};

    use super::*;
    use crate::epoch::CallEpoch;
    use crate::{Disk, SystemDisk, Target, TargetOptions};

    fn object(inode: u64, epoch: u32) -> ObjectRef {
        let name = ObjectName { inode, column: 0, volume: 1, generation: 1 };
        ObjectRef { name, epoch: Epoch { incarnation: 7, chain: 9, call: CallEpoch::Server(epoch, 0) } }
    }

    /// A disk that lets an orphan scan pass while a MAKE is under way: it has looked whether its objects are there, and
    /// notes those that are not.
    #[derive(Default)]
    struct Crossed(OnceLock<Arc<Target>>);

    impl Disk for Crossed {
        fn sync_log(&self, file: &File) -> io::Result<()> {
            if let Some(target) = self.0.get() {
                target.objects().remove_meant(&[object(5, 4)], |mark, bound| mark.is_before(bound)).unwrap();
            }
            SystemDisk.sync_log(file)
        }
    }

    #[test]
    fn a_make_that_a_scan_crosses_makes_its_object() {
        let (dir, disk) = (tempfile::tempdir().unwrap(), Arc::new(Crossed::default()));
        let options = TargetOptions { disk: disk.clone(), ..TargetOptions::default() };
        let target = Target::open_with(options, dir.path(), [1; 16], &host::SystemEntropy).unwrap();
        let objects = target.objects();
        objects.make_of_calls(&[object(5, 3)]).unwrap();
        let _ = disk.0.set(Arc::clone(&target));
        assert_eq!(objects.make_of_calls(&[object(5, 4), object(6, 4)]), Ok(()));
        assert!(objects.read(object(5, 4), 0, 1).is_ok() && objects.read(object(6, 4), 0, 1).is_ok());
        // One that is late is told so.
        objects.remove_meant(&[object(5, 8)], |_, _| true).unwrap();
        assert_eq!(objects.make_of_calls(&[object(5, 7)]), Err(ObjectError::StaleEpoch));
    }
}
