//! The machine's disk, which is full or read-only while a test says so, and holds changes up.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use dataserver::{Disk, SystemDisk};
use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;

/// A disk that fills up or turns read-only without having told so.
#[derive(Default)]
pub struct FillingDisk {
    /// What changes fail with; 0: they do not.
    fault: AtomicI32,
    refused: AtomicU32,
    /// Changes wait while it is true.
    holds: Mutex<bool>,
    held: AtomicU32,
    released: Condvar,
}

impl FillingDisk {
    /// Changes fail so from now on.
    pub fn fail(&self, fault: Errno) {
        self.fault.store(fault.raw_os_error(), Ordering::Relaxed);
    }

    /// Changes succeed from now on.
    pub fn work(&self) {
        self.fault.store(0, Ordering::Relaxed);
    }

    /// Changes that have failed so far.
    pub fn refused(&self) -> u32 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Changes wait from now on, or no longer.
    pub fn hold(&self, holds: bool) {
        *self.holds.lock() = holds;
        self.released.notify_all();
    }

    /// Changes that have waited so far.
    pub fn held(&self) -> u32 {
        self.held.load(Ordering::Relaxed)
    }

    fn answer(&self) -> io::Result<()> {
        let mut holds = self.holds.lock();
        self.held.fetch_add(u32::from(*holds), Ordering::Relaxed);
        self.released.wait_while(&mut holds, |holds| *holds);
        drop(holds);
        match self.fault.load(Ordering::Relaxed) {
            0 => Ok(()),
            fault => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                Err(io::Error::from_raw_os_error(fault))
            }
        }
    }
}

impl Disk for FillingDisk {
    fn read_cached(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        SystemDisk.read_cached(file, buffer, offset)
    }

    fn create_marked(&self, dir: &File, name: &str, mark: &[u8]) -> io::Result<bool> {
        self.answer()?;
        SystemDisk.create_marked(dir, name, mark)
    }

    /// Half of the bytes still have room.
    fn write_all_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        if let Err(error) = self.answer() {
            file.write_all_at(&bytes[..bytes.len() / 2], offset)?;
            return Err(error);
        }
        file.write_all_at(bytes, offset)
    }

    fn allocate(&self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        self.answer()?;
        SystemDisk.allocate(file, offset, len)
    }
}
