//! The objects of one target: reading, writing, and making durable.
//!
//! Everything here blocks; [`Target::run`](crate::Target::run) keeps it off the threads that serve the network.
//!
//! ```text
//! write    ─▶ open (creates) ─▶ pwrite ─▶ mark dirty ─▶ answer            the data are in the page cache
//! commit   ─▶ fdatasync if dirty ─▶ fsync directory if created ─▶ answer   they are on the disk
//! truncate ─▶ ftruncate ─▶ as commit           (allocate and punch likewise; copy: as write)
//! remove   ─▶ remember as removed ─▶ forget open file ─▶ unlink ─▶ fsync directory
//! ```
//!
//! An object that is in no cache has nothing unsynced: what leaves the cache is synced first, and when a target is
//! opened all that an earlier process wrote is synced.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use host::BufferPool;
use host::private::FILE_MODE;
use rustix::fs::StatVfsMountFlags;
use rustix::io::Errno;
use wire::data::WriteVerifier;
use wire::xdr::Payload;

use crate::disk::Disk;
use crate::object::{ObjectName, OpenObject};
use crate::open_files::{OpenFiles, Victim};
use crate::removed::Removed;
use crate::room::{Room, usable};

/// Locks for opening and unlinking: two objects rarely meet in one, and the same object always does.
const NAME_LOCKS: usize = 64;

/// Why an operation on an object failed. What was being done to what is in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// No space or quota left.
    #[error("no space left on the target")]
    NoSpace,
    /// The disk failed, now or before: see [`Objects::failed`].
    #[error("the disk failed")]
    Io,
    /// The object was removed.
    #[error("the object was removed")]
    Stale,
    /// Beyond the longest file that the file system below can hold.
    #[error("offset beyond the longest file")]
    TooLarge,
    /// The file system below is mounted read-only.
    #[error("the target is read-only")]
    ReadOnly,
    /// Files or memory have run out; it may pass.
    #[error("out of files or memory")]
    Busy,
    /// The file system below cannot do this.
    #[error("the file system cannot do this")]
    NotSupported,
}

/// What a read found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadOutcome {
    /// The bytes; fewer than wanted only at the end of the object.
    pub data: Bytes,
    /// Whether the object ends at or before the end of this read.
    pub at_end: bool,
}

/// Space on the file system that holds the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes in all.
    pub total: u64,
    /// Bytes that may still be used: what is free, but for a reserve.
    pub free: u64,
    /// Whether the file system is mounted read-only.
    pub read_only: bool,
}

/// The objects of one target.
pub struct Objects {
    root: PathBuf,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) pool: BufferPool,
    verifier: WriteVerifier,
    open: Mutex<OpenFiles>,
    removed: Mutex<Removed>,
    /// Held from the look at `removed` until a new file is in `open`, and during an unlink: an object must not come
    /// back between the two.
    names: Vec<Mutex<()>>,
    hasher: RandomState,
    failed: AtomicBool,
    pub(crate) room: Room,
    pub(crate) count: AtomicU64,
}

/// A panic elsewhere leaves these maps as they were between two calls: they are still right.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Objects {
    /// The objects under `root`, whose 256 directories are there and hold `count` objects.
    pub(crate) fn new(
        root: PathBuf,
        disk: Arc<dyn Disk>,
        verifier: WriteVerifier,
        open_files_max: usize,
        count: u64,
    ) -> Self {
        Self {
            root,
            disk,
            pool: BufferPool::default(),
            verifier,
            open: Mutex::new(OpenFiles::new(open_files_max)),
            removed: Mutex::default(),
            names: std::iter::repeat_with(Mutex::default).take(NAME_LOCKS).collect(),
            hasher: RandomState::new(),
            failed: AtomicBool::new(false),
            room: Room::default(),
            count: AtomicU64::new(count),
        }
    }

    /// Changes with each start of the process: unstable writes may be gone then.
    #[must_use]
    pub fn verifier(&self) -> WriteVerifier {
        self.verifier
    }

    /// Whether a sync failed. The kernel may then already have dropped our pages, and a second sync would report
    /// success; so nothing is served until a restart, when the verifier tells clients to send again.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Objects on the target.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Reads `count` bytes at `offset`. An object that is not there is empty: nothing has been written to it.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub fn read(&self, name: ObjectName, offset: u64, count: usize) -> Result<ReadOutcome, ObjectError> {
        self.check()?;
        let empty = ReadOutcome { data: Bytes::new(), at_end: true };
        if end_of(offset, count as u64).is_err() {
            return Ok(empty);
        }
        let Some(object) = self.find(name)? else { return Ok(empty) };
        let mut buffer = self.pool.take(count);
        let fail = |e| self.trouble("read", &name, e);
        let read = self.disk.read_at(&object.file, &mut buffer, offset).map_err(fail)?;
        let at_end = read < count || object.file.metadata().map_err(fail)?.len() <= offset + count as u64;
        buffer.truncate(read);
        Ok(ReadOutcome { data: buffer.freeze(), at_end })
    }

    /// Writes `data` at `offset`, and creates the object if it is not there. Durable only after a commit.
    ///
    /// # Errors
    /// [`ObjectError`]; some of the bytes may have been written.
    pub fn write(&self, name: ObjectName, offset: u64, data: &Payload) -> Result<(), ObjectError> {
        self.check()?;
        end_of(offset, data.len() as u64)?;
        if data.is_empty() {
            return Ok(());
        }
        if !self.room.take(data.len() as u64, || self.space().ok().map(|space| space.free)) {
            return Err(ObjectError::NoSpace);
        }
        let object = self.find_or_create(name)?;
        let mut at = offset;
        let mut outcome = Ok(());
        let one = lock(&object.writing);
        for piece in data.segments() {
            outcome = self.disk.write_all_at(&object.file, piece, at);
            if outcome.is_err() {
                break;
            }
            at += piece.len() as u64;
        }
        drop(one);
        object.touch();
        outcome.map_err(|e| self.trouble("write", &name, e))
    }

    /// Makes all writes to the object durable that were answered before.
    ///
    /// # Errors
    /// [`ObjectError`]; after a failed sync the target is failed.
    pub fn commit(&self, name: ObjectName) -> Result<(), ObjectError> {
        self.check()?;
        let object = lock(&self.open).get(&name);
        match object {
            Some(object) => self.sync(&name, &object),
            None => Ok(()),
        }
    }

    /// Shortens the object to `len`, durably. A shorter object stays as it is: what it lacks reads as zeros anyway.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub fn truncate(&self, name: ObjectName, len: u64) -> Result<(), ObjectError> {
        self.check()?;
        let Some(object) = self.find(name)? else { return Ok(()) };
        let fail = |e| self.trouble("truncate", &name, e);
        if object.file.metadata().map_err(fail)?.len() > len {
            let outcome = self.disk.set_len(&object.file, len);
            object.touch();
            outcome.map_err(fail)?;
        }
        // Also when it is short already: the call that shortened it may not have synced yet.
        self.sync(&name, &object)
    }

    /// Removes the objects, durably. One that is not there is no failure.
    ///
    /// # Errors
    /// [`ObjectError`]; some of the objects may have been removed.
    pub fn remove(&self, names: &[ObjectName]) -> Result<(), ObjectError> {
        self.check()?;
        let mut directories = BTreeSet::new();
        for name in names {
            let _name = lock(self.name_lock(name));
            lock(&self.removed).insert(*name);
            lock(&self.open).remove(name);
            match std::fs::remove_file(self.path(name)) {
                Ok(()) => {
                    self.count.fetch_sub(1, Ordering::Relaxed);
                }
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(self.trouble("remove", name, e)),
            }
            directories.insert(name.directory());
        }
        directories.into_iter().try_for_each(|d| self.sync_directory(d))
    }

    /// Space on the file system below.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub fn space(&self) -> Result<Space, ObjectError> {
        let stat = rustix::fs::statvfs(&self.root).map_err(|e| {
            tracing::error!(target = %self.root.display(), error = %e, "statvfs failed");
            ObjectError::Io
        })?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        let read_only = stat.f_flag.contains(StatVfsMountFlags::RDONLY);
        Ok(Space { total: bytes(stat.f_blocks), free: usable(bytes(stat.f_bavail)), read_only })
    }

    pub(crate) fn directory(&self, directory: u8) -> PathBuf {
        self.root.join(format!("{directory:02x}"))
    }

    fn path(&self, name: &ObjectName) -> PathBuf {
        self.directory(name.directory()).join(name.to_string())
    }

    fn name_lock(&self, name: &ObjectName) -> &Mutex<()> {
        &self.names[self.hasher.hash_one(name) as usize % NAME_LOCKS]
    }

    pub(crate) fn check(&self) -> Result<(), ObjectError> {
        if self.failed() { Err(ObjectError::Io) } else { Ok(()) }
    }

    pub(crate) fn find(&self, name: ObjectName) -> Result<Option<Arc<OpenObject>>, ObjectError> {
        self.open(name, false)
    }

    pub(crate) fn find_or_create(&self, name: ObjectName) -> Result<Arc<OpenObject>, ObjectError> {
        self.open(name, true)?.ok_or(ObjectError::Io)
    }

    /// The open object; none when it does not exist and is not to be created.
    fn open(&self, name: ObjectName, create: bool) -> Result<Option<Arc<OpenObject>>, ObjectError> {
        if let Some(object) = lock(&self.open).get(&name) {
            return Ok(Some(object));
        }
        self.make_room()?;
        let _name = lock(self.name_lock(&name));
        if lock(&self.removed).contains(&name) {
            return Err(ObjectError::Stale);
        }
        if let Some(object) = lock(&self.open).get(&name) {
            return Ok(Some(object));
        }
        let path = self.path(&name);
        let opened = match OpenOptions::new().read(true).write(true).open(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && create => {
                let file =
                    OpenOptions::new().read(true).write(true).create_new(true).mode(FILE_MODE).open(&path);
                file.map(|f| (f, true))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map(|f| (f, false)),
        };
        let (file, created) = opened.map_err(|e| self.trouble("open", &name, e))?;
        if created {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        let object = Arc::new(OpenObject::new(file, created));
        lock(&self.open).insert(name, Arc::clone(&object));
        Ok(Some(object))
    }

    fn make_room(&self) -> Result<(), ObjectError> {
        loop {
            let mut open = lock(&self.open);
            if !open.is_full() {
                return Ok(());
            }
            match open.evict() {
                Victim::Dropped => {}
                Victim::None => return Ok(()),
                Victim::Sync(name, object) => {
                    drop(open);
                    self.sync(&name, &object)?;
                }
            }
        }
    }

    pub(crate) fn sync(&self, name: &ObjectName, object: &OpenObject) -> Result<(), ObjectError> {
        let file = |file: &File| {
            self.disk.sync_file(file).map_err(|e| {
                self.fail();
                self.trouble("sync", name, e);
                // Whatever the kernel calls it, no space included, pages may be lost.
                ObjectError::Io
            })
        };
        object.sync(file, || self.sync_directory(name.directory()))?;
        // A sync that failed while we waited for it took our pages with it.
        self.check()
    }

    fn sync_directory(&self, directory: u8) -> Result<(), ObjectError> {
        let path = self.directory(directory);
        self.disk.sync_dir(&path).map_err(|error| {
            tracing::error!(directory = %path.display(), %error, "sync of directory failed");
            match answer_to(&error) {
                // It could not even be opened: nothing was tried, and nothing is lost.
                ObjectError::Busy => ObjectError::Busy,
                _ => {
                    self.fail();
                    ObjectError::Io
                }
            }
        })
    }

    fn fail(&self) {
        self.failed.store(true, Ordering::Release);
    }

    /// The answer to an error of the kernel, after it was logged.
    pub(crate) fn trouble(&self, doing: &str, name: &ObjectName, error: io::Error) -> ObjectError {
        let answer = answer_to(&error);
        match answer {
            // Expected in the life of a disk, and told to whoever wrote; a line for each write would fill the log.
            ObjectError::NoSpace | ObjectError::TooLarge | ObjectError::NotSupported => {
                tracing::debug!(target = %self.root.display(), %name, %error, "{doing} object failed");
            }
            _ => tracing::error!(target = %self.root.display(), %name, %error, "{doing} object failed"),
        }
        answer
    }
}

fn answer_to(error: &io::Error) -> ObjectError {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOSPC | Errno::DQUOT) => ObjectError::NoSpace,
        Some(Errno::FBIG) => ObjectError::TooLarge,
        Some(Errno::ROFS) => ObjectError::ReadOnly,
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => ObjectError::Busy,
        Some(Errno::OPNOTSUPP | Errno::NOSYS) => ObjectError::NotSupported,
        _ => ObjectError::Io,
    }
}

/// The end of a run of bytes, which must be an offset that the kernel can take.
pub(crate) fn end_of(offset: u64, len: u64) -> Result<u64, ObjectError> {
    let end = offset.checked_add(len).ok_or(ObjectError::TooLarge)?;
    i64::try_from(end).map(|_| end).map_err(|_| ObjectError::TooLarge)
}
