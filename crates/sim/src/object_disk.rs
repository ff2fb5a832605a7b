//! Disk of a data server with real files, which loses what was not synced when the power goes, and fails.
//!
//! ```text
//! write ─▶ the file, and the page before it in memory ─ sync ─▶ the page is forgotten
//!                                                     └ power ─▶ the page is put back, or not
//! ```
//!
//! Files that are replaced as a whole (identities, records of chains) are beside this: they are durable at once.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dataserver::{Disk, Place, SystemDisk};
use parking_lot::Mutex;
use rustix::fs::StatVfs;
use rustix::io::Errno;

use crate::bug::Bug;
use crate::rng::Rng;
use crate::shared::Shared;

/// Unit of loss.
const PAGE_BYTES: u64 = 4096;
/// Blocks of the simulated file system, each of a page: 256 MiB, of which a data server reserves a half.
pub const BLOCKS: u64 = 1 << 16;
/// Free blocks at the beginning: enough, whatever is written.
pub const FREE_BLOCKS: u64 = BLOCKS / 16 * 15;
/// Seconds between 1970 and the beginning of the simulation.
const BEGAN_S: u64 = 1_700_000_000;

/// State of a file at its last sync, as far as it is another one now.
struct Unsynced {
    file: File,
    /// Length.
    len: u64,
    /// Pages, each up to the length then.
    pages: BTreeMap<u64, Vec<u8>>,
    /// Its mark, if that has changed.
    mark: Option<Option<Vec<u8>>>,
}

/// Condition of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// It works.
    Works,
    /// It has no room.
    Full,
    /// Its file system is read-only after an error.
    ReadOnly,
    /// Nothing can be written or synced, and syncs lose what they should have kept.
    Fails,
}

struct State {
    rng: Rng,
    condition: Condition,
    /// Free blocks, whatever is written.
    free_blocks: u64,
    /// Least and greatest time of an operation, in milliseconds.
    pace_ms: (u64, u64),
    /// Changes until the power goes.
    changes_left: u64,
    is_dead: bool,
    /// By the number of the file's inode.
    unsynced: BTreeMap<u64, Unsynced>,
}

/// The disk. It outlives the processes of its machine.
#[derive(Clone)]
pub struct ObjectDisk {
    shared: Arc<Shared>,
    state: Arc<Mutex<State>>,
}

fn is_grown(old: u64, end: u64) -> bool {
    old < end
}

impl Unsynced {
    fn of(file: &File) -> io::Result<Self> {
        let len = file.metadata()?.len();
        Ok(Self { file: file.try_clone()?, len, pages: BTreeMap::new(), mark: None })
    }

    /// Keeps the pages of this range as they are.
    fn keep(&mut self, start: u64, end: u64) -> io::Result<()> {
        for page in start / PAGE_BYTES..end.min(self.len).div_ceil(PAGE_BYTES) {
            if self.pages.contains_key(&page) {
                continue;
            }
            let at = page * PAGE_BYTES;
            let mut bytes = vec![0; PAGE_BYTES.min(self.len - at) as usize];
            let read = SystemDisk.read_at(&self.file, &mut bytes, at)?;
            // A file that has become shorter meanwhile: its pages were kept then.
            bytes.truncate(read);
            self.pages.insert(page, bytes);
        }
        Ok(())
    }

    /// Puts back some of it.
    fn lose(self, rng: &mut Rng) -> io::Result<()> {
        // Mostly mixed; of some files all, or nothing, had reached the disk.
        let kind = rng.below(4);
        let mut is_lost = || match kind {
            0 => true,
            1 => false,
            _ => rng.below(2) == 0,
        };
        let modified = self.file.metadata()?.modified()?;
        if is_lost() {
            self.file.set_len(self.len)?;
        }
        let len = self.file.metadata()?.len();
        for (page, bytes) in self.pages {
            let at = page * PAGE_BYTES;
            if at < len && is_lost() {
                let mut old = bytes;
                old.resize(PAGE_BYTES.min(len - at) as usize, 0);
                self.file.write_all_at(&old, at)?;
            }
        }
        match self.mark {
            Some(Some(mark)) if is_lost() => SystemDisk.set_mark(&self.file, &mark)?,
            // No call removes a mark; the first one goes with its file, which is new.
            Some(_) | None => {}
        }
        // Not the time of the computer that simulates.
        self.file.set_modified(modified)
    }
}

impl ObjectDisk {
    /// A disk that works.
    #[must_use]
    pub fn new(shared: &Arc<Shared>, rng: Rng) -> Self {
        let state = State {
            rng,
            condition: Condition::Works,
            free_blocks: FREE_BLOCKS,
            pace_ms: (0, 1),
            changes_left: u64::MAX,
            is_dead: false,
            unsynced: BTreeMap::new(),
        };
        Self { shared: Arc::clone(shared), state: Arc::new(Mutex::new(state)) }
    }

    /// Time that the next operation takes.
    #[must_use]
    pub fn time(&self) -> Duration {
        let mut state = self.state.lock();
        let (least, most) = state.pace_ms;
        Duration::from_millis(state.rng.within(least..=most))
    }

    /// Sets the time of operations, in milliseconds.
    pub fn set_pace(&self, pace_ms: (u64, u64)) {
        self.state.lock().pace_ms = pace_ms;
    }

    /// Sets its condition.
    pub fn set_condition(&self, condition: Condition) {
        self.state.lock().condition = condition;
    }

    /// Sets its free blocks.
    pub fn set_free(&self, blocks: u64) {
        self.state.lock().free_blocks = blocks;
    }

    /// The power goes within the change after this many.
    pub fn cut_power_after(&self, changes: u64) {
        self.state.lock().changes_left = changes;
    }

    /// True if the power has gone, and the machine has not stopped yet.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.state.lock().is_dead
    }

    /// True if it is neither dead, nor full, nor failing.
    #[must_use]
    pub fn works(&self) -> bool {
        let state = self.state.lock();
        !state.is_dead && state.condition == Condition::Works
    }

    /// Loses some of what was not synced. All files must be closed.
    ///
    /// # Panics When the host's file system fails.
    pub fn lose_power(&self) {
        let mut state = self.state.lock();
        (state.is_dead, state.changes_left) = (false, u64::MAX);
        for (_, unsynced) in std::mem::take(&mut state.unsynced) {
            unsynced.lose(&mut state.rng).expect("files can be put back");
        }
    }

    /// An error that a dead disk gives.
    fn check(&self) -> io::Result<()> {
        if self.state.lock().is_dead { Err(Errno::IO.into()) } else { Ok(()) }
    }

    /// Begins a change of a range, up to which the file grows if `grows`; returns whether the power goes within it.
    fn change(&self, file: &File, start: u64, end: u64, grows: bool) -> io::Result<bool> {
        self.check()?;
        let metadata = file.metadata()?;
        let mut state = self.state.lock();
        match state.condition {
            Condition::Fails => return Err(Errno::IO.into()),
            Condition::ReadOnly => return Err(Errno::ROFS.into()),
            Condition::Full if grows && is_grown(metadata.len(), end) => return Err(Errno::NOSPC.into()),
            Condition::Full | Condition::Works => {}
        }
        let unsynced = match state.unsynced.entry(metadata.ino()) {
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(new) => new.insert(Unsynced::of(file)?),
        };
        unsynced.keep(start, end)?;
        let goes = state.changes_left == 0;
        state.changes_left = state.changes_left.saturating_sub(1);
        state.is_dead |= goes;
        Ok(goes)
    }

    /// Gives the file the simulation's time.
    fn touch(&self, file: &File) -> io::Result<()> {
        file.set_modified(self.now())
    }

    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(BEGAN_S) + Duration::from_millis(self.shared.now_ms())
    }

    fn sync(&self, file: &File, with_mark: bool) -> io::Result<()> {
        self.check()?;
        if self.shared.bug == Some(Bug::DataNotSynced) {
            return Ok(());
        }
        let inode = file.metadata()?.ino();
        let mut state = self.state.lock();
        let fails = state.condition == Condition::Fails;
        if state.condition == Condition::ReadOnly && state.unsynced.contains_key(&inode) {
            return Err(Errno::ROFS.into()); // the data stay in memory until the power goes
        }
        let Some(unsynced) = state.unsynced.remove(&inode) else {
            return if fails { Err(Errno::IO.into()) } else { Ok(()) };
        };
        if fails {
            // The kernel drops the pages, and the next sync succeeds.
            unsynced.lose(&mut state.rng)?;
            return Err(Errno::IO.into());
        }
        if !with_mark && unsynced.mark.is_some() {
            let len = file.metadata()?.len();
            state.unsynced.insert(inode, Unsynced { len, pages: BTreeMap::new(), ..unsynced });
        }
        Ok(())
    }
}

impl Disk for ObjectDisk {
    fn create_file(&self, dir: &File, name: &str) -> io::Result<File> {
        self.check()?;
        match self.state.lock().condition {
            Condition::Works => {}
            Condition::Full => return Err(Errno::NOSPC.into()),
            Condition::ReadOnly => return Err(Errno::ROFS.into()),
            Condition::Fails => return Err(Errno::IO.into()),
        }
        let file = SystemDisk.create_file(dir, name)?;
        self.touch(&file)?;
        Ok(file)
    }

    /// Durable at once, as names are.
    fn create_marked(&self, dir: &File, name: &str, mark: &[u8]) -> io::Result<bool> {
        SystemDisk.set_mark(&self.create_file(dir, name)?, mark)?;
        Ok(true)
    }

    fn statvfs(&self, dir: &File) -> io::Result<StatVfs> {
        let mut found = SystemDisk.statvfs(dir)?;
        let state = self.state.lock();
        let free = if state.condition == Condition::Full { 0 } else { state.free_blocks };
        (found.f_frsize, found.f_blocks, found.f_bfree, found.f_bavail) = (PAGE_BYTES, BLOCKS, free, free);
        Ok(found)
    }

    fn sync_file_system(&self, _: &File) -> io::Result<()> {
        self.check()?;
        let mut state = self.state.lock();
        match state.condition {
            Condition::Works | Condition::Full => state.unsynced.clear(),
            Condition::ReadOnly => return Err(Errno::ROFS.into()),
            Condition::Fails => return Err(Errno::IO.into()),
        }
        Ok(())
    }

    fn read_at(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.check()?;
        SystemDisk.read_at(file, buffer, offset)
    }

    fn write_all_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        let goes = self.change(file, offset, offset + bytes.len() as u64, true)?;
        let done = if goes { &bytes[..bytes.len() / 2] } else { bytes };
        SystemDisk.write_all_at(file, done, offset)?;
        self.touch(file)?;
        if goes { Err(Errno::IO.into()) } else { Ok(()) }
    }

    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        self.change(file, len, u64::MAX, false)?;
        SystemDisk.set_len(file, len)?;
        self.touch(file)
    }

    fn seek(&self, file: &File, place: Place, offset: u64) -> io::Result<Option<u64>> {
        self.check()?;
        SystemDisk.seek(file, place, offset)
    }

    fn allocate(&self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        self.change(file, offset, offset.saturating_add(len), true)?;
        SystemDisk.allocate(file, offset, len)?;
        self.touch(file)
    }

    fn punch(&self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        self.change(file, offset, offset.saturating_add(len), false)?;
        SystemDisk.punch(file, offset, len)?;
        self.touch(file)
    }

    fn copy(&self, from: &File, from_at: u64, to: &File, to_at: u64, len: usize) -> io::Result<usize> {
        self.change(to, to_at, to_at.saturating_add(len as u64), true)?;
        let copied = SystemDisk.copy(from, from_at, to, to_at, len)?;
        self.touch(to)?;
        Ok(copied)
    }

    fn set_mark(&self, file: &File, mark: &[u8]) -> io::Result<()> {
        self.change(file, 0, 0, false)?;
        let old = SystemDisk.mark(file)?;
        if let Some(unsynced) = self.state.lock().unsynced.get_mut(&file.metadata()?.ino()) {
            unsynced.mark.get_or_insert(old);
        }
        SystemDisk.set_mark(file, mark)
    }

    fn sync_all(&self, file: &File) -> io::Result<()> {
        self.sync(file, true)
    }

    fn sync_file(&self, file: &File) -> io::Result<()> {
        self.sync(file, false)
    }

    fn sync_sums(&self, file: &File) -> io::Result<()> {
        self.sync(file, false)
    }

    fn sync_log(&self, file: &File) -> io::Result<()> {
        self.sync(file, false)
    }

    fn sync_dir(&self, _: &File, _: &str) -> io::Result<()> {
        self.check()?;
        if self.state.lock().condition == Condition::ReadOnly { Err(Errno::ROFS.into()) } else { Ok(()) }
    }
}
