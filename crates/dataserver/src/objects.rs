//! The objects of one target: reading, writing, and making durable.
//!
//! Everything here blocks, but for reads of what the kernel's cache has (`cached`);
//! [`Target::run`](crate::Target::run) keeps it off the threads that serve the network.
//!
//! ```text
//! make     ─▶ create with its mark ─▶ fsync directory ─▶ answer   the object is there, empty and durable
//! write    ─▶ open ─▶ pwrite, and sums ─▶ mark dirty ─▶ answer    the data are in the page cache, or past it
//! commit   ─▶ fdatasync if dirty ─▶ answer                        they are on the disk
//! truncate ─▶ alone: ftruncate ─▶ mark ─▶ fsync ─▶ answer    (allocate and punch: as commit; copy: as write)
//! remove   ─▶ remember as removed ─▶ move to the trash ─▶ forget open file ─▶ fsync directory
//!             what was left behind: alone, and if its mark says so; a later MAKE brings it back
//! ```
//!
//! Every object that a client or metaserver may name was made before it could be named, so one that is not
//! found is lost ([`ObjectError::Lost`]): it never counts as a hole.
//!
//! An object that is in no cache has nothing unsynced: an object that leaves the cache is synced first, and
//! when a target is opened all that an earlier process wrote is synced.

mod cached;
mod marks;
mod open;
mod past_cache;
mod space;
mod sync;

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use host::{BufferPool, Repeated};
use parking_lot::Mutex;
use wire::data::WriteVerifier;
use wire::xdr::Payload;

use crate::attached::Attachments;
use crate::capacity::Capacity;
use crate::checksums::{Checksums, sums_of_whole_blocks};
use crate::disk::Disk;
use crate::epoch::ObjectRef;
use crate::held_dir::HeldDir;
use crate::object::{ObjectName, ObjectStat, OpenObject};
use crate::open_files::OpenFiles;
use crate::removed::Removed;
use crate::shared_trash::TrashOfTarget;

pub(crate) use past_cache::{ALIGNMENT, DirectFile, PastCache};
pub use space::Space;
pub(crate) use sync::answer_to;

/// Locks for opening and unlinking: two objects rarely meet in one, and the same object always does.
const NAME_LOCKS: usize = 64;

/// Buffers for reads: one pool for all targets of the process, whose bound is for all of them together. With
/// one for each, the 24 disks of a server would keep 3 GiB.
static POOL: LazyLock<BufferPool> = LazyLock::new(BufferPool::default);

/// Cause of a failed operation on an object. The log names the operation and the object.
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
    /// The handle's epoch is past: see [`Epoch`](crate::Epoch).
    #[error("the handle is of an earlier epoch")]
    StaleEpoch,
    /// The object was made, and is not there.
    #[error("the object is lost")]
    Lost,
    /// A block does not fit its checksum.
    #[error("a block of the object is damaged")]
    Damaged,
    /// The target is not the one that was opened: see [`Objects::lose`].
    #[error("the target is lost")]
    TargetLost,
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

/// Result of a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadOutcome {
    /// The bytes; fewer than wanted only at the end of the object.
    pub data: Bytes,
    /// True if the object ends at or before the end of this read.
    pub at_end: bool,
}

/// The objects of one target.
pub struct Objects {
    pub(crate) root: HeldDir,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) pool: BufferPool,
    pub(crate) past_cache: PastCache,
    pub(crate) trash: TrashOfTarget,
    /// Calls that needed an object that is missing.
    pub(crate) lost_object_calls: AtomicU64,
    pub(crate) checksums: Checksums,
    /// Reads and writes of objects: the scrubber gives way to them.
    calls: AtomicU64,
    /// Pieces of work under way that may wait for the disk.
    working: AtomicUsize,
    verifier: AtomicU64,
    pub(crate) open: Mutex<OpenFiles>,
    pub(crate) removed: Mutex<Removed>,
    /// Held from the look at `removed` until a file is in `open`, or made, and during an unlink: an object
    /// must not come back between the two.
    names: Vec<Mutex<()>>,
    hasher: RandomState,
    failed: AtomicBool,
    troubles: Repeated,
    /// A change was refused since the file system is read-only, which Linux from 6.15 on does not tell by
    /// statvfs when ext4 has become so by an error.
    refuses_changes: AtomicBool,
    lost: AtomicBool,
    /// Bytes of the longest file that the file system can hold.
    longest: u64,
    pub(crate) capacity: Capacity,
    pub(crate) attachments: Attachments,
    pub(crate) count: AtomicU64,
}

impl Objects {
    /// The objects in `root`, whose 256 directories are there and hold `count` objects.
    pub(crate) fn new(
        root: HeldDir,
        disk: Arc<dyn Disk>,
        trash: TrashOfTarget,
        checksums: Checksums,
        verifier: u64,
        open_files_max: usize,
        count: u64,
    ) -> Self {
        Self {
            longest: root.longest_file(),
            root,
            disk,
            pool: POOL.clone(),
            past_cache: PastCache::new(PastCache::kept_on_machine()),
            trash,
            lost_object_calls: AtomicU64::new(0),
            checksums,
            calls: AtomicU64::new(0),
            working: AtomicUsize::new(0),
            verifier: AtomicU64::new(verifier),
            open: Mutex::new(OpenFiles::new(open_files_max)),
            removed: Mutex::default(),
            names: std::iter::repeat_with(Mutex::default).take(NAME_LOCKS).collect(),
            hasher: RandomState::new(),
            failed: AtomicBool::new(false),
            troubles: Repeated::new(),
            refuses_changes: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            capacity: Capacity::default(),
            attachments: Attachments::default(),
            count: AtomicU64::new(count),
        }
    }

    /// Changes when unstable writes may be gone: with each start of the process, and when a sync finds the
    /// disk full.
    #[must_use]
    pub fn verifier(&self) -> WriteVerifier {
        self.verifier.load(Ordering::Acquire).to_be_bytes()
    }

    /// True if a sync failed. The kernel may then already have dropped our pages, and a second sync would
    /// report success. So nothing is served until a restart, when the verifier tells clients to send again.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// True if [`Objects::lose`] was called.
    #[must_use]
    pub fn lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// The target's directory is not at its path any more: from now on nothing is served. Returns whether
    /// that is news.
    pub(crate) fn lose(&self) -> bool {
        !self.lost.swap(true, Ordering::AcqRel)
    }

    /// Reads and writes so far.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Objects on the target.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Reads `count` bytes at `offset`.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub fn read(&self, object: ObjectRef, offset: u64, count: usize) -> Result<ReadOutcome, ObjectError> {
        self.read_as(object, offset, count, self.checksums.verifies_reads())
    }

    /// [`Objects::read`]. `verifies`: whether the blocks are verified.
    pub(crate) fn read_as(
        &self,
        object: ObjectRef,
        offset: u64,
        count: usize,
        verifies: bool,
    ) -> Result<ReadOutcome, ObjectError> {
        self.check()?;
        if end_of(offset, count as u64).is_err() {
            return Ok(ReadOutcome { data: Bytes::new(), at_end: true });
        }
        self.calls.fetch_add(1, Ordering::Relaxed);
        let open = self.find(object.name)?;
        let _entered = self.enter(&open, object)?;
        match open.attachment.get() {
            None => self.read_blocks(&object.name, &open, offset, count, verifies),
            Some(attached) => self.read_attached(&object.name, &open, &attached, offset, count, verifies),
        }
    }

    /// Writes `data` at `offset`. Durable only after a commit that has the verifier which is returned here.
    ///
    /// # Errors
    /// [`ObjectError`]; some of the bytes may have been written.
    pub fn write(
        &self,
        object: ObjectRef,
        offset: u64,
        data: &Payload,
    ) -> Result<WriteVerifier, ObjectError> {
        self.check()?;
        self.end_in_file(offset, data.len() as u64)?;
        // Before the write: a sync that fails from here on may take these bytes with it.
        let verifier = self.verifier();
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.take_room(data.len() as u64)?;
        self.write_in_room(object, offset, data, None)?;
        Ok(verifier)
    }

    /// The end of a run of bytes that a file here can hold.
    pub(crate) fn end_in_file(&self, offset: u64, len: u64) -> Result<u64, ObjectError> {
        end_of(offset, len)
            .and_then(|end| if end <= self.longest { Ok(end) } else { Err(ObjectError::TooLarge) })
    }

    /// Writes `data` at `offset`, for which there is room. `sums`: those of its pieces in blocks, if they are known.
    pub(crate) fn write_in_room(
        &self,
        object: ObjectRef,
        offset: u64,
        data: &Payload,
        sums: Option<&[u32]>,
    ) -> Result<(), ObjectError> {
        let open = self.find(object.name)?;
        let _entered = self.enter(&open, object)?;
        let range = offset..offset.saturating_add(data.len() as u64);
        let write = || self.write_open(&object.name, &open, offset, data, sums);
        let outcome = self.changing(&object.name, &open, range, write);
        open.touch();
        outcome
    }

    /// Writes to an open object. The caller touches it afterwards.
    pub(crate) fn write_open(
        &self,
        name: &ObjectName,
        open: &OpenObject,
        offset: u64,
        data: &Payload,
        sums: Option<&[u32]>,
    ) -> Result<(), ObjectError> {
        if data.is_empty() {
            return Ok(());
        }
        let sums = sums_of_whole_blocks(offset, data, sums);
        let mut changing = open.writing.lock();
        self.write_summed(name, open, &mut changing, offset, data, sums)?;
        open.tell_apart().map_err(|e| self.trouble("set the time of", name, e))
    }

    /// Writes as [`Objects::write`] and [`Objects::commit`] do: durable when it returns.
    ///
    /// # Errors
    /// [`ObjectError`]; some of the bytes may have been written.
    pub fn write_through(
        &self,
        object: ObjectRef,
        offset: u64,
        data: &Payload,
    ) -> Result<WriteVerifier, ObjectError> {
        let verifier = self.write(object, offset, data)?;
        self.commit(object)?;
        // Another thread's sync of the object may have failed for want of room, and taken these bytes with
        // it.
        if self.verifier() == verifier { Ok(verifier) } else { Err(ObjectError::NoSpace) }
    }

    /// Makes all writes to the object durable that were answered before.
    ///
    /// # Errors
    /// [`ObjectError`]; after a failed sync the target is failed, or the verifier is another one.
    pub fn commit(&self, object: ObjectRef) -> Result<(), ObjectError> {
        self.check()?;
        let open = self.open.lock().get(&object.name);
        let Some(open) = open else { return Ok(()) };
        let _entered = self.enter(&open, object)?;
        self.sync(&object.name, &open)
    }

    /// Length and modification time. `sync`: durable first.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub fn stat(&self, object: ObjectRef, sync: bool) -> Result<ObjectStat, ObjectError> {
        self.check()?;
        let open = self.find(object.name)?;
        let _entered = self.enter(&open, object)?;
        if sync {
            self.sync(&object.name, &open)?;
        }
        self.stat_open(&object.name, &open)
    }

    /// Shortens the object to `len`, durably, once for each epoch. A shorter object stays as it is: what it
    /// lacks reads as zeros anyway. One that is lost is made again where `len` is 0, for nothing is missing
    /// of it then.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub fn truncate(&self, object: ObjectRef, len: u64) -> Result<(), ObjectError> {
        self.check()?;
        let ObjectRef { name, epoch } = object;
        let open = match self.find(name) {
            Err(ObjectError::Lost) if len == 0 => {
                self.make(&[name])?;
                self.find(name)?
            }
            found => found?,
        };
        let fail = |e| self.trouble("truncate", &name, e);
        open.gate.alone(epoch, |stored, mark| {
            let Some(mark) = mark.truncated_at(epoch) else { return Ok(stored) };
            if open.file.metadata().map_err(fail)?.len() > len {
                self.shorten(&name, &open, len)?;
            }
            self.store_mark_of_shortened(&name, &open, mark)
        })
    }

    pub(crate) fn name_lock(&self, name: &ObjectName) -> &Mutex<()> {
        &self.names[self.hasher.hash_one(name) as usize % NAME_LOCKS]
    }

    pub(crate) fn check(&self) -> Result<(), ObjectError> {
        match (self.lost(), self.failed()) {
            (true, _) => Err(ObjectError::TargetLost),
            (false, true) => Err(ObjectError::Io),
            (false, false) => Ok(()),
        }
    }
}

/// The end of a run of bytes, which must be an offset that the kernel can take.
pub(crate) fn end_of(offset: u64, len: u64) -> Result<u64, ObjectError> {
    let end = offset.checked_add(len).ok_or(ObjectError::TooLarge)?;
    i64::try_from(end).map(|_| end).map_err(|_| ObjectError::TooLarge)
}

#[cfg(test)]
mod tests {
    use host::SeededEntropy;

    use crate::Target;

    #[test]
    fn all_targets_share_one_pool_of_buffers() {
        let dir = tempfile::tempdir().unwrap();
        let open = |name, seed| {
            Target::open_or_create(&dir.path().join(name), [7; 16], &SeededEntropy::new(seed)).unwrap()
        };
        let (one, other) = (open("one", 1), open("other", 2));
        assert!(one.objects().pool.is_same_as(&other.objects().pool));
    }
}
