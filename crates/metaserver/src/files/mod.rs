//! File service: what NFSv3 and NFSv4 alike do to files, decided once and in one order.
//!
//! ```text
//! ops/write.rs  ─┐  stateid: open, lock, delegation        ┌─▶ write: set-id, inline or objects, size
//!                ├─▶ caller's rights, deny modes, export ──┼─▶ set_attributes: layouts, truncation
//! ops3/write.rs ─┘  attributes before                      └─▶ make: rights, owner, mode of a new inode
//! ```
//!
//! **Order.** A read-only export refuses before rights do, rights before deny modes of other clients, and
//! these before a truncation that is pending. Set-id bits go before the first byte changes.
//!
//! **Repetition.** A change is made through its [`Request`], which gives each step the id by which the state
//! machine answers a repetition.

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

/// Checks that `user` may use the data of a file without an open of its own.
///
/// # Errors
/// `ReadOnly`, `Access`, or `Locked` where an open of another client denies it.
pub(crate) fn check_access(
    server: &Metaserver,
    view: &dyn View,
    user: &User,
    inode: &Inode,
    wanted: Share,
) -> Result<(), FileError> {
    match wanted.contains(Share::WRITE) {
        true => user.check_write(inode)?,
        false => user.check_read(inode)?,
    }
    server.state.check_share(view, inode.id, wanted)
}

/// Checks that an inode is a regular file, which alone has data.
///
/// # Errors
/// `IsDirectory`, or `Invalid` for any other.
pub(crate) fn check_regular(inode: &Inode) -> Result<(), FileError> {
    match (inode.layout(), inode.directory()) {
        (Some(_), _) => Ok(()),
        (None, Some(_)) => Err(FileError::IsDirectory),
        (None, None) => Err(FileError::Invalid),
    }
}
