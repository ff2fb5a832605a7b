//! The file system under test, as workers see it: a mounted directory, or an NFS server spoken to without a
//! mount.

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

/// What a person names: an `nfs://` address, or a directory. Of directories, one that is on no mount only if
/// `root_allowed`.
///
/// # Errors
/// A line that says what to do.
pub fn open(name: &str, root_allowed: bool) -> Result<Arc<dyn Target>, Trouble> {
    if NfsAddress::is_meant_by(name) {
        return Ok(Arc::new(NfsServer::connect(name.parse().map_err(Trouble)?)?));
    }
    Ok(Arc::new(Mounted::open(Path::new(name), root_allowed)?))
}

/// A file system under test. Paths are below its root and never begin with a slash. All calls wait until they
/// are done; workers call from threads of their own.
pub trait Target: Send + Sync {
    /// Description for the file of results: path, type, source and options of the mount, or the address.
    fn describe(&self) -> String;
    /// Bytes that this user can still write, if it can be told.
    fn free_bytes(&self) -> Option<u64>;
    /// Bytes that this process (or its machine, where only that is counted) read from below the page cache
    /// since some moment in the past; of no use but to be subtracted. `None` where nobody counts: there a
    /// read that is not `O_DIRECT` cannot be told from one of the page cache.
    fn fetched_bytes(&self) -> Option<u64>;
    /// Whether anything on this machine keeps what was read or written, such as a page cache.
    fn has_caches(&self) -> bool {
        true
    }
    /// Drops what this machine has cached of names, attributes and data, if it has any; all of it, since
    /// Linux cannot drop that of one file system.
    ///
    /// # Errors
    /// If it may not.
    fn forget_names(&self) -> io::Result<()>;
    /// What one more worker uses in its place: nothing says that it may use this one too, as it may a mounted
    /// directory.
    ///
    /// # Errors
    /// What kept it from being there, such as a connection that was refused.
    fn for_worker(&self) -> io::Result<Option<Arc<dyn Target>>> {
        Ok(None)
    }
    /// Opens a file.
    ///
    /// # Errors
    /// The file system's, as with every method here.
    fn open(&self, path: &str, open: Open) -> io::Result<Box<dyn OpenFile>>;
    /// Asks for the attributes of a name.
    ///
    /// # Errors
    /// As [`Target::open`].
    fn stat(&self, path: &str) -> io::Result<Attributes>;
    /// Gives a name another name.
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
    /// Lists a directory, without `.` and `..`; `each` gets a name, and whether it is a directory.
    ///
    /// # Errors
    /// As [`Target::open`].
    fn list(&self, path: &str, each: &mut dyn FnMut(&str, bool)) -> io::Result<()>;
}

/// Attributes of a name that a run needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// Its size.
    pub bytes: u64,
    /// When it last changed (ctime), in seconds since 1970.
    pub changed: i64,
}

/// An open file. Dropping it closes it without saying how that went; workers that write call
/// [`OpenFile::close`].
pub trait OpenFile: Send {
    /// Reads until `into` is full or the file ends; returns how many bytes.
    ///
    /// # Errors
    /// The file system's.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize>;
    /// Writes all of `data`.
    ///
    /// # Errors
    /// The file system's.
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()>;
    /// Brings what was written to stable storage.
    ///
    /// # Errors
    /// The file system's.
    fn sync(&self) -> io::Result<()>;
    /// Drops what this machine's page cache holds of it, if it holds anything.
    ///
    /// # Errors
    /// The file system's.
    fn forget(&self) -> io::Result<()>;
    /// Closes it.
    ///
    /// # Errors
    /// What the file system says, a write that it could not carry out included.
    fn close(self: Box<Self>) -> io::Result<()>;
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// To read; with `direct` past the client's page cache (`O_DIRECT`).
    Read {
        /// `O_DIRECT`.
        direct: bool,
    },
    /// To write; made if it is not there, kept as long as it is if it is.
    Write {
        /// `O_DIRECT`.
        direct: bool,
    },
    /// To write, and it must not be there.
    New,
}
