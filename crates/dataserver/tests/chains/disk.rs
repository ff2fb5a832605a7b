//! The machine's disk, which has no room while a test says so, and holds writes up.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use dataserver::{Disk, SystemDisk};
use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;

/// A disk that fills up without having told so.
#[derive(Default)]
pub struct FillingDisk {
    is_full: AtomicBool,
    refused: AtomicU32,
    /// Writes wait while it is true.
    holds: Mutex<bool>,
    held: AtomicU32,
    released: Condvar,
}

impl FillingDisk {
    /// From now on there is room, or none.
    pub fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::Relaxed);
    }

    /// Changes that had no room so far.
    pub fn refused(&self) -> u32 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Writes wait from now on, or no longer.
    pub fn hold(&self, holds: bool) {
        *self.holds.lock() = holds;
        self.released.notify_all();
    }

    /// Writes that have waited so far.
    pub fn held(&self) -> u32 {
        self.held.load(Ordering::Relaxed)
    }

    fn room(&self) -> io::Result<()> {
        if !self.is_full.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        Err(Errno::NOSPC.into())
    }
}

impl Disk for FillingDisk {
    fn read_cached(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        SystemDisk.read_cached(file, buffer, offset)
    }

    fn create_marked(&self, dir: &File, name: &str, mark: &[u8]) -> io::Result<bool> {
        self.room()?;
        SystemDisk.create_marked(dir, name, mark)
    }

    /// Half of the bytes still have room.
    fn write_all_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut holds = self.holds.lock();
        self.held.fetch_add(u32::from(*holds), Ordering::Relaxed);
        self.released.wait_while(&mut holds, |holds| *holds);
        drop(holds);
        if let Err(error) = self.room() {
            file.write_all_at(&bytes[..bytes.len() / 2], offset)?;
            return Err(error);
        }
        file.write_all_at(bytes, offset)
    }
}
