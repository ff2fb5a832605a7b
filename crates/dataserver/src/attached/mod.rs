//! Attached objects: an object begins as another one, its base, in time that hardly depends on their length.
//!
//! ```text
//! attach ─▶ second names of the base's file and sums ─▶ map: all regions are the base's ─▶ length of the base ─▶ durable
//! read   ─▶ of each region of 64 KiB: whose is it? ─▶ read there
//! change ─▶ regions of which it covers a part: copied from the base ─▶ the change ─▶ the regions are the object's own
//! sync   ─▶ data ─▶ map: a region whose entry is lost with the power shows the base, as if it had not been written
//! fill   ─▶ in the background: what nothing else needs of a base is copied, and the base's second name removed
//! ```
//!
//! A base is an object that a snapshot shows: nothing changes it, as a rule. Should it be changed (its snapshot is gone, a
//! clone that was promoted goes on with the object), each region is first copied to the objects that are attached to it.
//! Its removal takes one of its names; the objects keep theirs.
//!
//! A base may be an attached object itself, as with a snapshot each hour: an object is attached to all bases of its base, too
//! ([`BASES_MAX`] at most). So a region is copied once between two snapshots, and what is not written to is there once.
//! Where an object cannot be attached, the caller copies it.

mod attach;
mod fill;
mod index;
mod map;
mod own;
mod read;
mod shown;

use std::collections::BTreeMap;
use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::io::Errno;
use tokio::sync::Notify;

use crate::checksums::{self, SumFile};
use crate::epoch::Mark;
use crate::object::{ObjectName, OpenObject};
use crate::objects::{ObjectError, Objects};

pub use fill::FillStep;
use index::Index;
use map::{BASES_MAX, Bases, Map, Number, REGION_BYTES, SUFFIX as MAP_SUFFIX, read_bases};
pub use shown::shown_bytes;

/// The attached objects of a target.
#[derive(Default)]
pub(crate) struct Attachments {
    all: Mutex<Index>,
    /// There is one more.
    news: Notify,
}

/// What an open object is attached to.
#[derive(Debug)]
pub(crate) struct Attached {
    /// Files and sums of its bases, by their second names.
    bases: Mutex<[Option<Arc<OpenObject>>; BASES_MAX]>,
    map: Mutex<Map>,
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

impl Attached {
    fn base(&self, number: Number) -> Option<Arc<OpenObject>> {
        self.bases.lock()[usize::from(number) - 1].clone()
    }
}

impl Attachments {
    fn contains(&self, name: &ObjectName) -> bool {
        self.all.lock().get(name).is_some()
    }

    /// Waits until there is one more.
    pub(crate) async fn news(&self) {
        self.news.notified().await;
    }
}

/// Numbers of bases.
fn numbers() -> RangeInclusive<Number> {
    1..=BASES_MAX as Number
}

fn map_file(name: &ObjectName) -> String {
    name.path() + MAP_SUFFIX
}

/// Ends of the names of a base's file and sums.
fn base_suffixes(number: Number) -> [String; 2] {
    [format!(".base{number}"), format!(".base{number}.sums")]
}

/// The file and the sums of a base.
fn base_files(name: &ObjectName, number: Number) -> [String; 2] {
    base_suffixes(number).map(|suffix| name.path() + &suffix)
}

/// Ends of the names of all files of an attachment; the map last, since it is what makes the others count.
fn suffixes() -> impl Iterator<Item = String> {
    numbers().flat_map(base_suffixes).chain([MAP_SUFFIX.to_owned()])
}

impl Objects {
    fn len_of(&self, name: &ObjectName, open: &OpenObject) -> Result<u64, ObjectError> {
        Ok(open.file.metadata().map_err(|e| self.trouble("look at", name, e))?.len())
    }

    fn remove_if_there(&self, path: &str) -> io::Result<()> {
        match self.root.remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    /// Opens what an object with this mark is attached to. `NotFound`: a base that it needs is not there.
    fn open_bases(&self, name: &ObjectName, mark: Mark, map: Map) -> io::Result<Attached> {
        let mut bases = <[Option<Arc<OpenObject>>; BASES_MAX]>::default();
        for number in numbers().filter(|number| map.count(*number) > 0) {
            let [file, sums] = base_files(name, number).map(|file| self.root.open_file(&file));
            let base = OpenObject::new(file?, mark);
            let _ = base.sums.set(SumFile(sums?));
            bases[usize::from(number) - 1] = Some(Arc::new(base));
        }
        Ok(Attached { bases: Mutex::new(bases), map: Mutex::new(map), filling: Mutex::default() })
    }

    /// Opens the attachment of an object that is being opened, if it has one. The caller has the lock of its name.
    ///
    /// # Errors
    /// `Lost` if its files are damaged: which bytes are the object's own is not known. It goes to the trash, under another name.
    pub(crate) fn open_attachment(&self, name: &ObjectName, object: &OpenObject) -> Result<(), ObjectError> {
        if !self.attachments.contains(name) {
            return Ok(());
        }
        let fail = |e| self.trouble("open what it is attached to", name, e);
        let len = self.len_of(name, object)?;
        // It has nothing of its bases, as when the power went before it was attached.
        if len == 0 {
            let files: Vec<String> = suffixes().map(|suffix| name.path() + &suffix).collect();
            self.remove_leftover(&files).map_err(fail)?;
            self.attachments.all.lock().remove(name);
            return Ok(());
        }
        let map = self.root.open_file(&map_file(name)).and_then(|map| Map::read(&*self.disk, map, len));
        let opened = map.and_then(|map| match map {
            Some(map) => self.open_bases(name, object.gate.mark(), map).map(Some),
            None => Ok(None),
        });
        match opened {
            Ok(Some(attached)) => {
                object.attachment.set(Some(Arc::new(attached)));
                Ok(())
            }
            Ok(None) => self.lose_attached(name).and(Err(ObjectError::Lost)),
            Err(e) if is_loss(&e) => self.lose_attached(name).and(Err(ObjectError::Lost)),
            Err(e) => Err(fail(e)),
        }
    }

    /// Takes an object away whose map, or a base, is damaged or gone.
    fn lose_attached(&self, name: &ObjectName) -> Result<(), ObjectError> {
        tracing::error!(
            target = %self.root.path().display(), object = %name,
            "the map of an object's regions, or a base, is damaged or gone: the object is lost here, and is in the trash as \
             NAME.damaged. Check the disk (dmesg, smartctl); if its file has no copies, restore it from a backup or a snapshot"
        );
        for suffix in [String::new(), checksums::SUFFIX.to_owned()].into_iter().chain(suffixes()) {
            self.take_file(name, &suffix, &format!("{name}.damaged{suffix}"))?;
        }
        self.attachments.all.lock().remove(name);
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.sync_directory(name.directory())
    }

    /// Takes a file of an object to the trash, if it is there.
    fn take_file(&self, name: &ObjectName, suffix: &str, new: &str) -> Result<(), ObjectError> {
        match self.trash.own().take(&self.root, &(name.path() + suffix), new) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(self.trouble("take away", name, e)),
            _ => Ok(()),
        }
    }

    /// Takes the files of a removed object's attachment to the trash, beside it. The caller has the lock of its name.
    pub(crate) fn remove_attachment(&self, name: &ObjectName) -> Result<(), ObjectError> {
        if self.attachments.contains(name) {
            suffixes().try_for_each(|suffix| self.take_file(name, &suffix, &format!("{name}{suffix}")))?;
            self.attachments.all.lock().remove(name);
        }
        Ok(())
    }

    /// Removes what is left of the attachment of an object that had the name before. The caller has the lock of the name.
    pub(crate) fn remove_old_attachment(&self, name: &ObjectName) -> io::Result<()> {
        if self.root.contains(&map_file(name))? {
            suffixes().try_for_each(|suffix| self.remove_if_there(&(name.path() + &suffix)))?;
            self.attachments.all.lock().remove(name);
        }
        Ok(())
    }

    /// Learns of the attachments that an earlier process has left, among these files of the target; removes those without
    /// an object, or without a map, and bases that the map does not name.
    pub(crate) fn find_attachments(&self, files: Vec<(ObjectName, FileKind)>) -> io::Result<()> {
        let mut by_object = BTreeMap::<ObjectName, Vec<FileKind>>::new();
        files.into_iter().for_each(|(name, kind)| by_object.entry(name).or_default().push(kind));
        for (name, kinds) in by_object {
            let is_attached = kinds.contains(&FileKind::Map) && self.root.contains(&name.path())?;
            // Of a damaged map none is known: it is found to be so when the object is opened.
            let map = || self.root.open_file(&map_file(&name)).and_then(|map| read_bases(&*self.disk, &map));
            let bases = is_attached.then(|| map().unwrap_or_default());
            for kind in kinds {
                match (kind, bases) {
                    (FileKind::Map, Some(bases)) => self.attachments.all.lock().insert(name, bases),
                    (FileKind::Base(number), Some(bases))
                        if bases[usize::from(number) - 1].is_some() || bases == Bases::default() => {}
                    (FileKind::Map, None) => self.remove_leftover(&[map_file(&name)])?,
                    (FileKind::Base(number), _) => self.remove_leftover(&base_files(&name, number))?,
                }
            }
        }
        Ok(())
    }

    fn remove_leftover(&self, files: &[String]) -> io::Result<()> {
        files.iter().try_for_each(|file| match self.remove_if_there(file) {
            Err(e) if e.kind() == io::ErrorKind::ReadOnlyFilesystem => Ok(()),
            removed => removed,
        })
    }
}

/// True if a map or a base is not there, or cannot be read.
fn is_loss(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::IO.raw_os_error())
}

/// Kind of a file of an attachment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    Map,
    /// The file of a base, or its sums.
    Base(Number),
}

/// The object and the kind of a file of an attachment.
pub(crate) fn parse_file(file: &str) -> Option<(ObjectName, FileKind)> {
    let of = |suffix: &str| file.strip_suffix(suffix).and_then(ObjectName::parse);
    if let Some(name) = of(MAP_SUFFIX) {
        return Some((name, FileKind::Map));
    }
    // Most files are others.
    file.contains(".base").then_some(())?;
    numbers().find_map(|number| {
        let name = base_suffixes(number).into_iter().find_map(|suffix| of(&suffix))?;
        Some((name, FileKind::Base(number)))
    })
}
