//! Files of a directory of this program, for the metadata log: real ones, or those of a simulated disk that
//! loses unsynced bytes.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::patience::patiently;

/// File system.
pub trait Files: Send + Sync + 'static {
    /// Makes the directory and its missing parents.
    ///
    /// # Errors
    /// The error of the system; so everywhere here.
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

    /// Renames a file; replaces an existing file of the new name.
    ///
    /// # Errors
    /// As above.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// As above.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Syncs a directory: names that were made, changed or removed in it are durable afterwards.
    ///
    /// # Errors
    /// As above.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// Mode of opening a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opened {
    /// For reads.
    Read,
    /// For writes to an existing file.
    Write,
    /// For writes; creates or truncates the file.
    New,
    /// For durable writes, past the page cache if the file system supports that: a write is on disk when it
    /// returns. Its range in file and memory is aligned to blocks.
    Durable,
}

/// Open file.
pub trait File: Send + Sync {
    /// Length of the file in bytes.
    ///
    /// # Errors
    /// As above.
    fn bytes(&self) -> io::Result<u64>;

    /// Fills `bytes` from offset `at`.
    ///
    /// # Errors
    /// As above, or an error if the file is too short.
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()>;

    /// Writes all of `bytes` at offset `at`.
    ///
    /// # Errors
    /// As above.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Syncs the file: all writes and its length are durable afterwards.
    ///
    /// # Errors
    /// As above. After a failed sync the bytes may be lost.
    fn sync(&self) -> io::Result<()>;
}

/// Files of the machine.
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
        // A retry writes the same bytes again, from the start.
        patiently("write", || self.write_all_at(bytes, at))
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_all()
    }
}

/// Durable writes by direct I/O: one system call and one request to the disk, without the page cache; a write
/// and a sync are two of each. A file system without direct I/O gets a write and a sync.
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
                // Some file systems accept the flag and refuse the write.
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
