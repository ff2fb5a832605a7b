//! Target: the file system under test for workers, a mounted directory or an NFS server without a mount.

mod mount;
mod mounted;
mod nfs;
mod nfs_address;

pub use mounted::Mounted;
pub use nfs::NfsServer;
pub use nfs_address::NfsAddress;

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::trouble::Trouble;

/// Opens a named target: an `nfs://` address, or a directory. A directory on the root file system only if
/// `root_allowed`.
///
/// # Errors
/// One line with a remedy.
pub fn open(name: &str, root_allowed: bool) -> Result<Arc<dyn Target>, Trouble> {
    if NfsAddress::is_meant_by(name) {
        return Ok(Arc::new(NfsServer::connect(name.parse().map_err(Trouble)?)?));
    }
    Ok(Arc::new(Mounted::open(Path::new(name), root_allowed)?))
}

/// File system under test. Paths are below its root and never begin with a slash. All calls block; workers
/// call from threads of their own.
pub trait Target: Send + Sync {
    /// Description for the file of results: path, type, source and options of the mount, or the address.
    fn describe(&self) -> String;
    /// Free bytes for this user, if known.
    fn free_bytes(&self) -> Option<u64>;
    /// Counter of bytes that this process (or its machine) read from below the page cache; only differences
    /// are meaningful. `None` without a counter: then a read without `O_DIRECT` cannot be distinguished from
    /// a page cache hit.
    fn fetched_bytes(&self) -> Option<u64>;
    /// True if this machine caches data, for example in a page cache.
    fn has_caches(&self) -> bool {
        true
    }
    /// Drops all cached names, attributes and data of this machine, since Linux cannot drop those of one file
    /// system.
    ///
    /// # Errors
    /// When this is not permitted.
    fn forget_names(&self) -> io::Result<()>;
    /// Target for one more worker, if it must not share this one; a mounted directory can be shared.
    ///
    /// # Errors
    /// Error of opening it, such as a refused connection.
    fn for_worker(&self) -> io::Result<Option<Arc<dyn Target>>> {
        Ok(None)
    }
    /// Opens a file.
    ///
    /// # Errors
    /// Error of the file system, as of every method here.
    fn open(&self, path: &str, open: Open) -> io::Result<Box<dyn OpenFile>>;
    /// Reads the attributes of a name.
    ///
    /// # Errors
    /// As [`Target::open`].
    fn stat(&self, path: &str) -> io::Result<Attributes>;
    /// Renames a name.
    ///
    /// # Errors
    /// As [`Target::open`].
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    ///
    /// # Errors
    /// As [`Target::open`].
    fn unlink(&self, path: &str) -> io::Result<()>;
    /// Makes a directory.
    ///
    /// # Errors
    /// As [`Target::open`].
    fn mkdir(&self, path: &str) -> io::Result<()>;
    /// Removes an empty directory.
    ///
    /// # Errors
    /// As [`Target::open`].
    fn rmdir(&self, path: &str) -> io::Result<()>;
    /// Lists a directory, without `.` and `..`; `each` gets the name, and whether it is a directory.
    ///
    /// # Errors
    /// As [`Target::open`].
    fn list(&self, path: &str, each: &mut dyn FnMut(&str, bool)) -> io::Result<()>;
}

/// Attributes of a name that a run needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// Size in bytes.
    pub bytes: u64,
    /// Time of the last change (ctime), in seconds since 1970.
    pub changed: i64,
}

/// Open file. Drop closes it and ignores errors; workers that write call [`OpenFile::close`].
pub trait OpenFile: Send {
    /// Reads until `into` is full or the file ends; returns the number of bytes.
    ///
    /// # Errors
    /// Error of the file system.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize>;
    /// Writes all of `data`.
    ///
    /// # Errors
    /// Error of the file system.
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()>;
    /// Syncs the file to stable storage.
    ///
    /// # Errors
    /// Error of the file system.
    fn sync(&self) -> io::Result<()>;
    /// Drops the file from this machine's page cache.
    ///
    /// # Errors
    /// Error of the file system.
    fn forget(&self) -> io::Result<()>;
    /// Closes the file.
    ///
    /// # Errors
    /// Error of the file system, also of an earlier write.
    fn close(self: Box<Self>) -> io::Result<()>;
}

/// Mode of opening a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// For reads; with `direct` past the client's page cache (`O_DIRECT`).
    Read {
        /// `O_DIRECT`.
        direct: bool,
    },
    /// For writes; created if missing, not truncated.
    Write {
        /// `O_DIRECT`.
        direct: bool,
    },
    /// For writes; the file must not exist.
    New,
}
