//! File service: file operations common to NFSv3 and NFSv4, with checks in one fixed order.
//!
//! ```text
//! ops/write.rs  ─┐  stateid: open, lock, delegation        ┌─▶ write: set-id, inline or objects, size
//!                ├─▶ caller's rights, deny modes, export ──┼─▶ set_attributes: layouts, truncation
//! ops3/write.rs ─┘  attributes before                      └─▶ make: rights, owner, mode of a new inode
//! ```
//!
//! **Order of checks.** First a read-only export, then the caller's rights, then deny modes of other clients,
//! then a pending truncation. Set-id bits are cleared before the first byte changes.
//!
//! **Retries.** A change is made through its [`Request`], which gives each step an id. By this id the state
//! machine answers a retry.

pub(crate) mod claim;
pub(crate) mod make;
pub(crate) mod request;
pub(crate) mod set_attributes;
pub(crate) mod write;

pub(crate) use request::Request;

use namespace::{Inode, Share};
use store::View;

use crate::Metaserver;
use crate::errors::FileError;
use crate::user::User;

/// Checks that `user` may use the data of a file without an open.
///
/// # Errors
/// `ReadOnly`, `Access`, or `Locked` if an open of another client denies it.
pub(crate) fn check_access(
    server: &Metaserver,
    view: &dyn View,
    user: &User,
    inode: &Inode,
    wanted: Share,
) -> Result<(), FileError> {
    match wanted.contains(Share::WRITE) {
        true if inode.id.is_read_only() => return Err(FileError::ReadOnly),
        true => user.check_write(inode)?,
        false => user.check_read(inode)?,
    }
    server.state.check_share(view, inode.id, wanted)
}

/// Checks that an inode is a regular file, the only kind with data.
///
/// # Errors
/// `IsDirectory` for a directory, `Invalid` for other kinds.
pub(crate) fn check_regular(inode: &Inode) -> Result<(), FileError> {
    match (inode.layout(), inode.directory()) {
        (Some(_), _) => Ok(()),
        (None, Some(_)) => Err(FileError::IsDirectory),
        (None, None) => Err(FileError::Invalid),
    }
}
