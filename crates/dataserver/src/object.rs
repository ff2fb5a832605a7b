//! The name of an object on its target, and the file that holds it.
//!
//! ```text
//! objects/2a/00000001.000000000000002a.00000003.00000000
//!         │  volume   inode            generation column      all in hexadecimal
//!         └─ low byte of the inode: 256 directories
//! ```

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, UNIX_EPOCH};

use parking_lot::Mutex;
use wire::handle::ObjectHandle;

use crate::attached::Attachment;
use crate::checksums::{Changing, Noted, SumFile};
use crate::epoch::{EpochGate, Mark};
use crate::objects::DirectFile;

/// Directories that objects are spread over: with ten million objects each holds 40,000, which any file
/// system likes.
pub(crate) const DIRECTORIES: u16 = 256;

/// One column of one file on the target whose name space this is. The order is that of LIST: within a
/// directory by inode, then column; volume and generation last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectName {
    /// Inode of the volume.
    pub inode: u64,
    /// Column of the file.
    pub column: u32,
    /// Volume.
    pub volume: u32,
    /// Generation of the inode.
    pub generation: u32,
}

impl From<&ObjectHandle> for ObjectName {
    fn from(handle: &ObjectHandle) -> Self {
        let file = handle.file;
        Self { inode: file.inode, column: handle.column, volume: file.volume, generation: file.generation }
    }
}

impl std::fmt::Display for ObjectName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { inode, column, volume, generation } = self;
        write!(f, "{volume:08x}.{inode:016x}.{generation:08x}.{column:08x}")
    }
}

impl ObjectName {
    /// Which of the directories holds it.
    #[must_use]
    pub fn directory(&self) -> u8 {
        self.inode.to_be_bytes()[7]
    }

    /// The next name in the order; none: it is the last.
    pub(crate) fn next(self) -> Option<Self> {
        let next = Self { generation: self.generation.wrapping_add(1), ..self };
        if next.generation != 0 {
            return Some(next);
        }
        let next = Self { volume: self.volume.wrapping_add(1), ..next };
        if next.volume != 0 {
            return Some(next);
        }
        let next = Self { column: self.column.wrapping_add(1), ..next };
        if next.column != 0 {
            Some(next)
        } else {
            self.inode.checked_add(1).map(|inode| Self { inode, ..next })
        }
    }

    /// Its file below the directory of all objects.
    pub(crate) fn path(&self) -> String {
        format!("{:02x}/{self}", self.directory())
    }

    /// The name that is written so, and no other: `Display` gives the same text again.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let mut part = |digits: usize| {
            let part = parts.next().filter(|p| p.len() == digits)?;
            // from_str_radix would also take a sign and capitals.
            let plain = part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            plain.then(|| u64::from_str_radix(part, 16).ok())?
        };
        let volume = u32::try_from(part(8)?).ok()?;
        let inode = part(16)?;
        let generation = u32::try_from(part(8)?).ok()?;
        let column = u32::try_from(part(8)?).ok()?;
        parts.next().is_none().then_some(Self { inode, column, volume, generation })
    }
}

/// File of an object while it is open, with a note of the part that is not durable yet.
#[derive(Debug)]
pub(crate) struct OpenObject {
    pub file: File,
    /// The same file, past the kernel's cache, once something was written so.
    pub direct: DirectFile,
    /// Written or shortened since the last sync. Set after the write, before it is answered.
    dirty: AtomicBool,
    /// Held during a change of data and sums: the kernel takes one write at a time, and a second one would
    /// spin for it.
    pub writing: Mutex<Changing>,
    /// Regions that may change, as far as the holder of `writing` knows.
    pub noted: Arc<Noted>,
    /// Its sums; none: it has no data yet, or none of them is summed.
    pub sums: OnceLock<SumFile>,
    /// True if it has doubtful regions: see [`Checksums::doubts`](crate::checksums::Checksums).
    doubtful: AtomicBool,
    /// Held during a sync: a caller that finds nothing left to sync must know that the sync is done.
    syncing: Mutex<()>,
    /// What it is attached to, if it is.
    pub attachment: Attachment,
    /// Its epoch.
    pub gate: EpochGate,
    /// True if [`OpenObject::stat`] was called and no write has got a later time since.
    asked: AtomicBool,
    /// Last modification time that was reported or set, in nanoseconds since 1970.
    told_ns: Mutex<u64>,
    /// Last modification time that all members of the object's chain know; 0: none.
    pub known_to_all_ns: AtomicU64,
}

/// Length of an object, time of its last write, and the space that it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ObjectStat {
    /// Its length in bytes.
    pub len: u64,
    /// Time of the last write, in nanoseconds since 1970; 0: never.
    pub modified_ns: u64,
    /// Bytes that the file system has given it up to its end, without its sums.
    pub space_used: u64,
}

impl From<ObjectStat> for wire::data::ObjectStat {
    fn from(found: ObjectStat) -> Self {
        let ObjectStat { len, modified_ns, space_used } = found;
        Self { len, modified_ns, space_used }
    }
}

impl From<wire::data::ObjectStat> for ObjectStat {
    fn from(told: wire::data::ObjectStat) -> Self {
        let wire::data::ObjectStat { len, modified_ns, space_used } = told;
        Self { len, modified_ns, space_used }
    }
}

/// Bytes of a block of `st_blocks`, whatever the file system.
const STAT_BLOCK_BYTES: u64 = 512;
/// Multiple to which lengths are rounded up: blocks of usual file systems.
const SPACE_UNIT: u64 = 4096;

fn stat(file: &File) -> io::Result<ObjectStat> {
    let now = file.metadata()?;
    let seconds = u64::try_from(now.mtime()).unwrap_or(0);
    let modified_ns = seconds.saturating_mul(1_000_000_000).saturating_add(now.mtime_nsec() as u64);
    // XFS takes room behind the end of a file that grows, and gives it back later.
    let blocks = now.blocks().saturating_mul(STAT_BLOCK_BYTES);
    let space_used = blocks.min(now.len().next_multiple_of(SPACE_UNIT));
    Ok(ObjectStat { len: now.len(), modified_ns, space_used })
}

impl OpenObject {
    pub(crate) fn new(file: File, mark: Mark) -> Self {
        let told_ns = stat(&file).map_or(0, |found| found.modified_ns);
        let changing = Changing::default();
        Self {
            file,
            direct: DirectFile::default(),
            dirty: AtomicBool::new(false),
            noted: changing.noted(),
            writing: Mutex::new(changing),
            sums: OnceLock::new(),
            doubtful: AtomicBool::new(false),
            syncing: Mutex::new(()),
            attachment: Attachment::default(),
            gate: EpochGate::new(mark),
            // The time may have been reported before the file was last closed.
            asked: AtomicBool::new(true),
            told_ns: Mutex::new(told_ns),
            known_to_all_ns: AtomicU64::new(0),
        }
    }

    /// Length and modification time now. A write that is not part of this gets another modification time.
    pub(crate) fn stat(&self) -> io::Result<ObjectStat> {
        let mut told_ns = self.told_ns.lock();
        // Before the look: a write that sees it unset was over before.
        self.asked.store(true, Ordering::SeqCst);
        let found = stat(&self.file)?;
        *told_ns = found.modified_ns.max(*told_ns);
        Ok(found)
    }

    /// Makes sure that the write that was just done has another modification time than any that was told: the
    /// kernel's clock for them stands still for milliseconds. To be called with `writing` held.
    pub(crate) fn tell_apart(&self) -> io::Result<()> {
        if !self.asked.load(Ordering::SeqCst) {
            return Ok(());
        }
        let mut told_ns = self.told_ns.lock();
        let now = stat(&self.file)?.modified_ns;
        if now > *told_ns {
            self.asked.store(false, Ordering::SeqCst);
            return Ok(());
        }
        *told_ns += 1;
        self.file.set_modified(UNIX_EPOCH + Duration::from_nanos(*told_ns))
    }

    /// Makes sure that the modification time is at least `told_ns`, and that of the next write later.
    pub(crate) fn tell_time(&self, told_ns: u64) -> io::Result<()> {
        let _one = self.writing.lock();
        let mut last_ns = self.told_ns.lock();
        self.asked.store(true, Ordering::SeqCst);
        *last_ns = told_ns.max(*last_ns);
        if stat(&self.file)?.modified_ns < told_ns {
            self.file.set_modified(UNIX_EPOCH + Duration::from_nanos(told_ns))?;
        }
        Ok(())
    }

    /// Sets the modification time back, after a change that is none to clients.
    pub(crate) fn set_time(&self, modified_ns: u64) -> io::Result<()> {
        self.file.set_modified(UNIX_EPOCH + Duration::from_nanos(modified_ns))
    }

    pub(crate) fn is_doubtful(&self) -> bool {
        self.doubtful.load(Ordering::Acquire)
    }

    pub(crate) fn set_doubtful(&self, doubtful: bool) {
        self.doubtful.store(doubtful, Ordering::Release);
    }

    pub(crate) fn touch(&self) {
        self.dirty.store(true, Ordering::Release);
    }

    /// True if there are changes to sync.
    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty.load(Ordering::Acquire)
    }

    /// Makes its data and length durable: `file` syncs them, and is called only if there is need.
    pub(crate) fn sync<E>(&self, file: impl FnOnce(&File) -> Result<(), E>) -> Result<(), E> {
        // A poisoned lock only says that another sync panicked; the flag decides.
        let _one = self.syncing.lock();
        if self.dirty.swap(false, Ordering::AcqRel) { file(&self.file) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_written_in_one_way_only() {
        let name = ObjectName { inode: 0x12ab, column: 3, volume: 1, generation: 0xdead_beef };
        assert_eq!(name.to_string(), "00000001.00000000000012ab.deadbeef.00000003");
        assert_eq!(ObjectName::parse(&name.to_string()), Some(name));
        assert_eq!(name.directory(), 0xab);
        for not in [
            "",
            "00000001.00000000000012ab.deadbeef",
            "00000001.00000000000012AB.deadbeef.00000003",
            "+0000001.00000000000012ab.deadbeef.00000003",
            "00000001.00000000000012ab.deadbeef.00000003.0",
            "0000001.00000000000012ab.deadbeef.00000003",
            "lost+found",
        ] {
            assert_eq!(ObjectName::parse(not), None, "{not}");
        }
    }
}
