//! Files of a directory that is ours, as far as the metadata log needs them: the file system's, or a
//! simulated disk's that loses bytes that were not synced.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::patience::patiently;

/// A file system.
pub trait Files: Send + Sync + 'static {
    /// Makes the directory and those above it, where they are not there.
    ///
    /// # Errors
    /// The system's; so everywhere here.
    fn make_dir(&self, dir: &Path) -> io::Result<()>;

    /// Lists the entries of a directory, in any order.
    ///
    /// # Errors
    /// As above.
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>>;

    /// Opens a file.
    ///
    /// # Errors
    /// As above.
    fn open(&self, path: &Path, how: Opened) -> io::Result<Box<dyn File>>;

    /// Renames a file; an earlier file of the new name is gone.
    ///
    /// # Errors
    /// As above.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// As above.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Returns when names that were made, changed and removed in the directory are on disk so.
    ///
    /// # Errors
    /// As above.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opened {
    /// To read.
    Read,
    /// To write an existing file.
    Write,
    /// To write; made, or emptied.
    New,
    /// To write, past the page cache where the file system can do that: a write is on disk when it returns.
    /// It begins at a block's boundary in file and memory, and ends at one.
    Durable,
}

/// An open file.
pub trait File: Send + Sync {
    /// Its length in bytes.
    ///
    /// # Errors
    /// As above.
    fn bytes(&self) -> io::Result<u64>;

    /// Fills `bytes` from `at`.
    ///
    /// # Errors
    /// As above, or that the file is too short.
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()>;

    /// Writes all of `bytes` at `at`.
    ///
    /// # Errors
    /// As above.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Returns when all writes are on disk, and the file's length.
    ///
    /// # Errors
    /// As above. The bytes of a failed sync may be nowhere.
    fn sync(&self) -> io::Result<()>;
}

/// The machine's own.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemFiles;

impl Files for SystemFiles {
    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        crate::private::make_dir(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        patiently("list", || std::fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect())
    }

    fn open(&self, path: &Path, how: Opened) -> io::Result<Box<dyn File>> {
        let mut options = OpenOptions::new();
        options.mode(crate::private::FILE_MODE);
        match how {
            Opened::Read => options.read(true),
            Opened::Write | Opened::Durable | Opened::New => options.write(true),
        };
        if how == Opened::New {
            return Ok(Box::new(patiently("open", || crate::private::create(path))?));
        }
        if how != Opened::Durable {
            return Ok(Box::new(patiently("open", || options.open(path))?));
        }
        let flags = OFlags::DIRECT | OFlags::DSYNC;
        let direct = options.clone().custom_flags(flags.bits().cast_signed()).clone();
        let (file, direct) = match patiently("open", || direct.open(path)) {
            Ok(file) => (file, true),
            Err(e) if is_refused(&e) => (patiently("open", || options.open(path))?, false),
            Err(e) => return Err(e),
        };
        Ok(Box::new(Durable { file, direct: AtomicBool::new(direct) }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        patiently("rename", || std::fs::rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        patiently("remove", || std::fs::remove_file(path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        patiently("open", || std::fs::File::open(dir))?.sync_all()
    }
}

impl File for std::fs::File {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        patiently("read", || self.read_exact_at(bytes, at))
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        // A retry writes all of it again, the same bytes.
        patiently("write", || self.write_all_at(bytes, at))
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_all()
    }
}

/// One system call and one request to the disk, where a write and a sync are two of each and go through the
/// cache's bookkeeping. A file system that cannot do this gets a write and a sync.
struct Durable {
    file: std::fs::File,
    direct: AtomicBool,
}

impl File for Durable {
    fn bytes(&self) -> io::Result<u64> {
        File::bytes(&self.file)
    }

    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        File::read_at(&self.file, bytes, at)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        if self.direct.load(Ordering::Relaxed) {
            match patiently("write", || self.file.write_all_at(bytes, at)) {
                // Some file systems take the flag and refuse the write.
                Err(e) if is_refused(&e) => {
                    rustix::fs::fcntl_setfl(&self.file, OFlags::empty())?;
                    self.direct.store(false, Ordering::Relaxed);
                }
                outcome => return outcome,
            }
        }
        patiently("write", || self.file.write_all_at(bytes, at))?;
        self.file.sync_data()
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }
}

fn is_refused(error: &io::Error) -> bool {
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(number, Some(Errno::INVAL | Errno::OPNOTSUPP))
}
