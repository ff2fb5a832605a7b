//! Attached objects: an object begins as another one, its base, in time that does not depend on their length.
//!
//! ```text
//! attach ─▶ second names of the base's file and sums ─▶ map of regions, empty ─▶ length of the base ─▶ durable
//! read   ─▶ of each region of 1 MiB: is it the object's own? ─ no ─▶ read from the base
//! change ─▶ regions of which it covers a part: copied from the base ─▶ the change ─▶ the regions are its own
//! sync   ─▶ data ─▶ map: a region whose bit is lost with the power shows the base, as if it had not been written
//! fill   ─▶ in the background: all regions copied, synced ─▶ map and second names removed: an object like others
//! ```
//!
//! The base is an object that a snapshot shows: nothing changes it, as a rule. Should it be changed (its snapshot is gone, a
//! clone that was promoted goes on with the object), each region is first copied to the objects that are attached to it.
//! Its removal takes one of its names; the object keeps the other.
//!
//! A base is no attached object itself, and has no doubtful sums: its second name knows of neither. Where an object cannot
//! be attached, the caller copies it.

mod fill;
mod own;
mod read;
mod region_map;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::checksums::{self, SumFile};
use crate::epoch::{Mark, ObjectRef};
use crate::object::{ObjectName, OpenObject};
use crate::objects::{ObjectError, Objects};

pub use fill::FillStep;
pub(crate) use region_map::{REGION_BYTES, RegionMap, SUFFIX as MAP_SUFFIX};

/// Appended to the name of an object: the second name of its base.
pub(crate) const BASE_SUFFIX: &str = ".base";
/// Appended to the name of an object: the second name of its base's sums.
pub(crate) const BASE_SUMS_SUFFIX: &str = ".base.sums";
/// All files of an attachment; the map last, since it is what makes the others count.
const SUFFIXES: [&str; 3] = [BASE_SUFFIX, BASE_SUMS_SUFFIX, MAP_SUFFIX];

/// The attached objects of a target.
#[derive(Default)]
pub(crate) struct Attachments {
    /// Each with its base.
    bases: Mutex<BTreeMap<ObjectName, ObjectName>>,
    /// There is one more.
    news: Notify,
}

/// What an open object is attached to.
#[derive(Debug)]
pub(crate) struct Attached {
    base: ObjectName,
    /// The base's file and sums.
    object: Arc<OpenObject>,
    map: Mutex<RegionMap>,
    /// Held while regions are copied, and during changes of the object's data.
    filling: Mutex<()>,
}

/// Place of the attachment in an open object.
#[derive(Debug, Default)]
pub(crate) struct Attachment {
    is_there: AtomicBool,
    attached: Mutex<Option<Arc<Attached>>>,
}

impl Attachment {
    /// What the object is attached to; none, mostly.
    pub(crate) fn get(&self) -> Option<Arc<Attached>> {
        if self.is_there.load(Ordering::Acquire) { self.attached.lock().clone() } else { None }
    }

    fn set(&self, attached: Option<Arc<Attached>>) {
        let mut place = self.attached.lock();
        self.is_there.store(attached.is_some(), Ordering::Release);
        *place = attached;
    }
}

impl Attachments {
    fn contains(&self, name: &ObjectName) -> bool {
        self.bases.lock().contains_key(name)
    }

    /// Waits until there is one more.
    pub(crate) async fn news(&self) {
        self.news.notified().await;
    }
}

/// File of an object's attachment.
fn file(name: &ObjectName, suffix: &str) -> String {
    name.path() + suffix
}

impl Objects {
    /// Attaches an empty object to `base`. Durable.
    ///
    /// # Errors
    /// `NotSupported` where it is to be copied; [`ObjectError`].
    pub fn attach(&self, object: ObjectRef, base: ObjectName) -> Result<(), ObjectError> {
        self.check()?;
        let name = object.name;
        let from = match self.find(base) {
            Err(ObjectError::Lost | ObjectError::Stale) => return Err(ObjectError::NotSupported),
            found => found?,
        };
        let open = self.find(name)?;
        let _entered = self.enter(&open, object)?;
        if let Some(attached) =
            open.attachment.get().filter(|_| self.len_of(&name, &open).is_ok_and(|len| len > 0))
        {
            return if attached.base == base { Ok(()) } else { Err(ObjectError::NotSupported) };
        }
        let is_plain = name != base && from.gate.mark().chain == open.gate.mark().chain;
        let is_whole = from.attachment.get().is_none() && !from.is_doubtful();
        if !is_plain || !is_whole || self.len_of(&name, &open)? > 0 {
            return Err(ObjectError::NotSupported);
        }
        let len = self.len_of(&base, &from)?;
        if len == 0 {
            return Ok(());
        }
        // What its second name shows needs no change log.
        self.sync(&base, &from)?;
        let Some(sums) = from.sums.get() else { return Err(ObjectError::NotSupported) };
        self.disk.sync_sums(&sums.0).map_err(|e| self.sums_sync_failed(&base, &from, &e))?;
        self.begin_sums(&name, &open, 0)?;
        let attached = {
            let _name = self.name_lock(&name).lock();
            self.check_not_removed(&name)?;
            let map = self.make_names(&name, &base, len)?;
            let attached = Arc::new(self.open_base(&name, map)?);
            self.attachments.bases.lock().insert(name, base);
            attached
        };
        open.attachment.set(Some(attached));
        // An object that has a length has its map, and its base.
        self.sync_directory(name.directory())?;
        let set = self.disk.set_len(&open.file, len);
        open.touch();
        set.map_err(|e| self.trouble("set the length of", &name, e))?;
        self.sync_by(&name, &open, |file| self.disk.sync_all(file))?;
        self.attachments.news.notify_one();
        Ok(())
    }

    fn len_of(&self, name: &ObjectName, open: &OpenObject) -> Result<u64, ObjectError> {
        Ok(open.file.metadata().map_err(|e| self.trouble("look at", name, e))?.len())
    }

    /// Makes the second names of a base, and a map. The caller has the lock of the name.
    fn make_names(&self, name: &ObjectName, base: &ObjectName, len: u64) -> Result<RegionMap, ObjectError> {
        let make = || {
            for suffix in SUFFIXES {
                self.remove_if_there(&file(name, suffix))?;
            }
            let root = self.root.file();
            self.disk.link(root, &base.path(), &file(name, BASE_SUFFIX))?;
            self.disk.link(root, &(base.path() + checksums::SUFFIX), &file(name, BASE_SUMS_SUFFIX))?;
            let map = self.disk.create_file(root, &file(name, MAP_SUFFIX))?;
            RegionMap::create(&*self.disk, map, *base, len)
        };
        make().map_err(|e| match e.kind() {
            // A file system without second names, or one that has given the base all that it can.
            io::ErrorKind::TooManyLinks | io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported => {
                ObjectError::NotSupported
            }
            _ => self.trouble("attach", name, e),
        })
    }

    fn remove_if_there(&self, path: &str) -> io::Result<()> {
        match self.root.remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    /// Opens what an object is attached to, by its second names.
    fn open_base(&self, name: &ObjectName, map: RegionMap) -> Result<Attached, ObjectError> {
        let fail = |e| self.trouble("open the base of", name, e);
        let base_file = self.root.open_file(&file(name, BASE_SUFFIX)).map_err(fail)?;
        let object = OpenObject::new(base_file, Mark::default());
        let sums = self.root.open_file(&file(name, BASE_SUMS_SUFFIX)).map_err(fail)?;
        let _ = object.sums.set(SumFile(sums));
        let (base, object) = (map.base(), Arc::new(object));
        Ok(Attached { base, object, map: Mutex::new(map), filling: Mutex::default() })
    }

    /// Opens the attachment of an object that is being opened, if it has one. The caller has the lock of its name.
    ///
    /// # Errors
    /// `Lost` if its files are damaged: which bytes are the object's own is not known. It goes to the trash, under another name.
    pub(crate) fn open_attachment(&self, name: &ObjectName, object: &OpenObject) -> Result<(), ObjectError> {
        if !self.attachments.contains(name) {
            return Ok(());
        }
        let fail = |e| self.trouble("open the map of", name, e);
        let found = match self.root.open_file(&file(name, MAP_SUFFIX)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            map => {
                RegionMap::read(&*self.disk, map.map_err(fail)?, self.len_of(name, object)?).map_err(fail)?
            }
        };
        let is_whole = |suffix| self.root.contains(&file(name, suffix)).map_err(fail);
        match found {
            Some(map) if is_whole(BASE_SUFFIX)? && is_whole(BASE_SUMS_SUFFIX)? => {
                object.attachment.set(Some(Arc::new(self.open_base(name, map)?)));
                Ok(())
            }
            // The fill was at its end, or the attachment at its begin.
            Some(map) if map.next_of_base(0).is_none() => {
                self.attachments.bases.lock().remove(name);
                SUFFIXES
                    .iter()
                    .rev()
                    .try_for_each(|suffix| self.remove_if_there(&file(name, suffix)))
                    .map_err(fail)
            }
            _ => self.lose_attached(name).and(Err(ObjectError::Lost)),
        }
    }

    /// Takes an object away whose map, or base, is damaged or gone.
    fn lose_attached(&self, name: &ObjectName) -> Result<(), ObjectError> {
        tracing::error!(
            target = %self.root.path().display(), object = %name,
            "the map of an object's regions, or its base, is damaged or gone: the object is lost here, and is in the trash as \
             NAME.damaged. Check the disk (dmesg, smartctl); if its file has no copies, restore it from a backup or a snapshot"
        );
        self.attachments.bases.lock().remove(name);
        let take = |from: &str| {
            self.trash.own().take(&self.root, &file(name, from), &format!("{name}.damaged{from}"))
        };
        for suffix in ["", checksums::SUFFIX].into_iter().chain(SUFFIXES) {
            match take(suffix) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(self.trouble("take away", name, e));
                }
                _ => {}
            }
        }
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.sync_directory(name.directory())
    }

    /// Takes the files of a removed object's attachment to the trash, beside it. The caller has the lock of its name.
    pub(crate) fn remove_attachment(&self, name: &ObjectName) -> Result<(), ObjectError> {
        if self.attachments.bases.lock().remove(name).is_none() {
            return Ok(());
        }
        for suffix in SUFFIXES {
            match self.trash.own().take(&self.root, &file(name, suffix), &format!("{name}{suffix}")) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(self.trouble("remove the base of", name, e));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Learns of the attachments that an earlier process has left, among these files of the target; removes those without
    /// an object, or without a map.
    pub(crate) fn find_attachments(&self, files: Vec<(ObjectName, &'static str)>) -> io::Result<()> {
        for (name, suffix) in files {
            let has_map = suffix == MAP_SUFFIX || self.root.contains(&file(&name, MAP_SUFFIX))?;
            if !has_map || !self.root.contains(&name.path())? {
                match self.remove_if_there(&file(&name, suffix)) {
                    Err(e) if e.kind() == io::ErrorKind::ReadOnlyFilesystem => {}
                    removed => removed?,
                }
            } else if suffix == MAP_SUFFIX {
                let map = self.root.open_file(&file(&name, MAP_SUFFIX))?;
                // Of a damaged one the base is not known; it is found to be so when the object is opened.
                let base = RegionMap::read(&*self.disk, map, u64::MAX)?.map_or(name, |map| map.base());
                self.attachments.bases.lock().insert(name, base);
            }
        }
        Ok(())
    }
}

/// The object and the suffix of a file of an attachment.
pub(crate) fn parse_file(file: &str) -> Option<(ObjectName, &'static str)> {
    let suffix = SUFFIXES.into_iter().rev().find(|suffix| file.ends_with(*suffix))?;
    Some((ObjectName::parse(file.strip_suffix(suffix)?)?, suffix))
}
