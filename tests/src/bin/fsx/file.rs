//! File under test: performs each step by the system calls of its name.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, fcntl};
use rustix::fs::{Advice, FallocateFlags, OFlags};

use crate::step::{Step, bytes};

pub struct Tested {
    path: PathBuf,
    direct: bool,
    file: File,
}

impl Tested {
    /// Opens `path`, or creates it.
    pub fn open(path: &Path, direct: bool) -> io::Result<Tested> {
        let file = open(path, direct, OFlags::CREATE)?;
        Ok(Tested { path: path.to_owned(), direct, file })
    }

    /// Performs a step. `copy` is the expected content before it.
    pub fn perform(&mut self, step: &Step, copy: &[u8], seed: u64, number: u64) -> io::Result<()> {
        match *step {
            Step::Write { offset, length } => self.file.write_all_at(&bytes(seed, number, length), offset),
            Step::Append { length } => {
                let appending = open(&self.path, self.direct, OFlags::APPEND)?;
                io::Write::write_all(&mut &appending, &bytes(seed, number, length))
            }
            Step::MapWrite { offset, length } => {
                let mut options = vmap::MapMut::with_options();
                options.offset(offset as usize).len(length as usize);
                let mut map = options.map(&self.file).map_err(io::Error::other)?;
                map.copy_from_slice(&bytes(seed, number, length));
                Ok(())
            }
            Step::MapRead { offset, length } => {
                let mut options = vmap::Map::with_options();
                options.offset(offset as usize).len(length as usize);
                let map = options.map(&self.file).map_err(io::Error::other)?;
                same(offset, &map, &copy[offset as usize..(offset + length) as usize], "mapped")
            }
            Step::Read { offset, length } => {
                let found = self.read(offset, length)?;
                let end = copy.len().min((offset + length) as usize);
                same(offset, &found, &copy[end.min(offset as usize)..end], "read")
            }
            Step::Truncate { size } => self.file.set_len(size),
            Step::OpenTruncate => {
                self.file = open(&self.path, self.direct, OFlags::TRUNC)?;
                Ok(())
            }
            Step::Allocate { offset, length } => {
                Ok(rustix::fs::fallocate(&self.file, FallocateFlags::empty(), offset, length)?)
            }
            Step::Punch { offset, length } => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                Ok(rustix::fs::fallocate(&self.file, flags, offset, length)?)
            }
            Step::Fsync => self.file.sync_all(),
            Step::Reopen => {
                // Close first: this step tests close-to-open.
                self.file = File::open("/dev/null")?;
                self.file = open(&self.path, self.direct, OFlags::empty())?;
                Ok(())
            }
            Step::Forget => {
                self.file.sync_all()?;
                Ok(rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed)?)
            }
        }
    }

    /// Bytes from `offset`, fewer than `length` only at the end.
    pub fn read(&self, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        let mut found = vec![0xee; length as usize];
        let mut filled = 0;
        while filled < found.len() {
            match self.file.read_at(&mut found[filled..], offset + filled as u64)? {
                0 => break,
                n => filled += n,
            }
        }
        found.truncate(filled);
        Ok(found)
    }

    pub fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    /// Takes (or releases) a write lock on `length` bytes, 0 for all from `offset` on; `false` if another
    /// process holds a conflicting lock.
    pub fn lock(&self, offset: u64, length: u64, locked: bool) -> io::Result<bool> {
        let kind = if locked { nix::libc::F_WRLCK } else { nix::libc::F_UNLCK };
        let range = nix::libc::flock {
            l_type: kind as i16,
            l_whence: nix::libc::SEEK_SET as i16,
            l_start: offset as i64,
            l_len: length as i64,
            l_pid: 0,
        };
        match fcntl(&self.file, FcntlArg::F_SETLK(&range)) {
            Ok(_) => Ok(true),
            Err(nix::Error::EAGAIN | nix::Error::EACCES) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
}

/// Compares `found` with the expected bytes; reports the first difference.
pub fn same(offset: u64, found: &[u8], expected: &[u8], how: &str) -> io::Result<()> {
    if found == expected {
        return Ok(());
    }
    let first =
        found.iter().zip(expected).position(|(a, b)| a != b).unwrap_or(found.len().min(expected.len()));
    let wrong = found.iter().zip(expected).filter(|(a, b)| a != b).count();
    let show = |bytes: &[u8]| format!("{:02x?}", &bytes[first..bytes.len().min(first + 16)]);
    Err(io::Error::other(format!(
        "{how} {} bytes at {offset}, expected {}; {wrong} differ, the first at {}: {}, expected {}",
        found.len(),
        expected.len(),
        offset + first as u64,
        show(found),
        show(expected),
    )))
}

fn open(path: &Path, direct: bool, more: OFlags) -> io::Result<File> {
    let direct = if direct { OFlags::DIRECT } else { OFlags::empty() };
    let flags = (direct | more) & !(OFlags::CREATE | OFlags::TRUNC | OFlags::APPEND);
    OpenOptions::new()
        .read(true)
        .write(true)
        .append(more.contains(OFlags::APPEND))
        .create(more.contains(OFlags::CREATE))
        .truncate(more.contains(OFlags::TRUNC))
        .custom_flags(flags.bits().cast_signed())
        .open(path)
}
