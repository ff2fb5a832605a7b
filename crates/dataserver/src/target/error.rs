//! Causes why a directory cannot be a target.

use std::io;
use std::path::PathBuf;

use crate::identity::IdentityError;

/// Cause why a directory cannot be a target, and the remedy. One line.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// Another process has it.
    #[error("{0}: another process serves this target; stop it, or name another directory")]
    Locked(PathBuf),
    /// There are other things in it.
    #[error("{0}: not empty and not a Heorot target (it holds {1:?}); name an empty directory")]
    NotOurs(PathBuf, String),
    /// Objects, but no identity.
    #[error(
        "{0}: holds objects but no target.toml; bring target.toml back, or empty the directory to start anew"
    )]
    NoIdentity(PathBuf),
    /// The identity file.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The file system below.
    #[error("{path}: cannot {doing}: {error}; the server needs to read and write here")]
    Io {
        /// The operation that failed.
        doing: &'static str,
        /// The file or directory of the operation.
        path: PathBuf,
        /// The kernel's error.
        error: io::Error,
    },
    /// The file system below keeps no extended attributes, which hold the epochs of objects.
    #[error(
        "{0}: its file system has no extended attributes (user.*), which objects need; use ext4, XFS, btrfs, ZFS, or tmpfs \
         of Linux 6.6, mounted without nouser_xattr"
    )]
    NoXattrs(PathBuf),
    /// There was one, and there is nothing now.
    #[error(
        "{path}: the storage target {id:016x} was here and is gone, and its data would be missing; bring it back (is its disk \
         mounted?); to begin a new one in its place, remove its line from {note}"
    )]
    Gone {
        /// Its directory.
        path: PathBuf,
        /// Its id.
        id: u64,
        /// The file that says so.
        note: PathBuf,
    },
    /// The same target twice.
    #[error(
        "{0}: has the same target id as {1}; a target can be served once, and a copy of one is not another"
    )]
    Twice(PathBuf, PathBuf),
}
