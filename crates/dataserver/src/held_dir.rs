//! Directories that are held open.
//!
//! A file opened through a held directory is in the directory that was opened at the start, whatever is
//! mounted over its path, or unmounted from it, since then. By path, an object of an unmounted target would
//! seem not to exist.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, XattrFlags};
use rustix::io::Errno;

/// Files that are made: for the server's user alone.
pub(crate) const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Attribute that is set and removed, to see whether there are any.
const PROBE: &str = "user.heorot.probe";
/// Directories that are made: for the server's user alone.
const DIRECTORY_MODE: Mode = Mode::RWXU;

/// A directory, by a file descriptor. The path is for messages.
#[derive(Debug)]
pub(crate) struct HeldDir {
    file: File,
    path: PathBuf,
}

impl HeldDir {
    /// Opens the directory at `path`.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty())?.into();
        Ok(Self { file, path: path.into() })
    }

    /// Opens a directory in this one.
    pub(crate) fn child(&self, name: &str) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.file, name, flags, Mode::empty())?.into();
        Ok(Self { file, path: self.path.join(name) })
    }

    /// True unless its file system says that it has no extended attributes of users.
    pub(crate) fn has_xattrs(&self) -> bool {
        let set = rustix::fs::fsetxattr(&self.file, PROBE, &[1], XattrFlags::empty());
        if set.is_ok() {
            let _ = rustix::fs::fremovexattr(&self.file, PROBE);
        }
        set != Err(Errno::OPNOTSUPP)
    }

    /// Bytes of the longest file that its file system can hold, by trial on a file without a name; where there is none
    /// such, the most that the kernel takes of this process.
    pub(crate) fn longest_file(&self) -> u64 {
        // Beyond the limit of the process, the kernel would end it.
        let of_process = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
        let most = of_process.unwrap_or(u64::MAX).min(i64::MAX as u64);
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::openat(&self.file, ".", flags, FILE_MODE).map(File::from) else {
            return most;
        };
        let is_too_long = |len: u64| match rustix::fs::ftruncate(&file, len) {
            Ok(()) => Some(false),
            Err(Errno::FBIG | Errno::INVAL) => Some(true),
            // Of the disk, and not of the length.
            Err(_) => None,
        };
        let (mut held, mut refused) = match is_too_long(most) {
            Some(true) => (0, most),
            Some(false) | None => return most,
        };
        while refused - held > 1 {
            let middle = held + (refused - held) / 2;
            match is_too_long(middle) {
                Some(false) => held = middle,
                Some(true) => refused = middle,
                None => return most,
            }
        }
        held
    }

    /// Its path when it was opened.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// True if its path still leads to it: the same inode of the same file system. While the directory is
    /// held, no other directory can have both numbers.
    pub(crate) fn is_at_its_path(&self) -> io::Result<bool> {
        let held = self.file.metadata()?;
        match std::fs::metadata(&self.path) {
            Ok(found) => Ok((found.dev(), found.ino()) == (held.dev(), held.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Opens the file `name` to read and write; on a read-only file system, to read.
    pub(crate) fn open_file(&self, name: &str) -> io::Result<File> {
        let open = |access| rustix::fs::openat(&self.file, name, access | OFlags::CLOEXEC, Mode::empty());
        match open(OFlags::RDWR) {
            Err(Errno::ROFS) => Ok(open(OFlags::RDONLY)?.into()),
            opened => Ok(opened?.into()),
        }
    }

    /// Opens the file `name` to be read past the kernel's cache. None: its file system cannot do that.
    pub(crate) fn open_past_cache(&self, name: &str) -> io::Result<Option<File>> {
        let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.file, name, flags, Mode::empty()) {
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(None),
            opened => Ok(Some(opened?.into())),
        }
    }

    /// Makes the directory `name`, if it is not there.
    pub(crate) fn create_dir(&self, name: &str) -> io::Result<()> {
        match rustix::fs::mkdirat(&self.file, name, DIRECTORY_MODE) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn remove_file(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.file, name, AtFlags::empty())?)
    }

    pub(crate) fn remove_dir(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.file, name, AtFlags::REMOVEDIR)?)
    }

    /// Moves the file `name` to `to`, where it is called `new`.
    pub(crate) fn move_file(&self, name: &str, to: &HeldDir, new: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.file, name, &to.file, new)?)
    }

    /// True if an entry with this name exists.
    pub(crate) fn contains(&self, name: &str) -> io::Result<bool> {
        match rustix::fs::statat(&self.file, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Number of names of the file `name`; 0: it is not there.
    pub(crate) fn names_of(&self, name: &str) -> io::Result<u64> {
        match rustix::fs::statat(&self.file, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(stat.st_nlink),
            Err(Errno::NOENT) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Bytes of its disk that the removal of the file `name` frees: none, if the file has another name.
    pub(crate) fn allocated_bytes(&self, name: &str) -> io::Result<u64> {
        let stat = rustix::fs::statat(&self.file, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let blocks = if stat.st_nlink > 1 { 0 } else { u64::try_from(stat.st_blocks).unwrap_or(0) };
        Ok(blocks.saturating_mul(STAT_BLOCK_BYTES))
    }

    /// The text of the small file `name`.
    pub(crate) fn read_text(&self, name: &str) -> io::Result<String> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file: File = rustix::fs::openat(&self.file, name, flags, Mode::empty())?.into();
        io::read_to_string(file)
    }

    /// The names in it that are text, until `visit` says that it is enough.
    pub(crate) fn names(&self, mut visit: impl FnMut(&str, FileType) -> Visit) -> io::Result<()> {
        for entry in Dir::read_from(&self.file)? {
            let entry = entry?;
            if let Ok(name) = entry.file_name().to_str()
                && !matches!(name, "." | "..")
                && visit(name, entry.file_type()) == Visit::Stop
            {
                break;
            }
        }
        Ok(())
    }
}

/// Bytes of a block in st_blocks, whatever the file system's are.
pub(crate) const STAT_BLOCK_BYTES: u64 = 512;

/// Continuation of [`HeldDir::names`] after a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visit {
    GoOn,
    Stop,
}
