//! NFSv3's procedures, one file for each: check, command, reply.
//!
//! Common parts of both protocols are in `files`. This folder has the statuses of version 3, and the
//! attributes in its replies, also in failures (`wcc`).

pub(crate) mod access;
pub(crate) mod commit;
pub(crate) mod create;
mod entry;
pub(crate) mod fsinfo;
pub(crate) mod fsstat;
pub(crate) mod getattr;
pub(crate) mod link;
pub(crate) mod lookup;
mod make;
pub(crate) mod mkdir;
pub(crate) mod mknod;
pub(crate) mod pathconf;
pub(crate) mod read;
pub(crate) mod readdir;
pub(crate) mod readdirplus;
pub(crate) mod readlink;
pub(crate) mod refused;
pub(crate) mod remove;
pub(crate) mod rename;
pub(crate) mod rmdir;
pub(crate) mod setattr;
pub(crate) mod symlink;
mod wcc;
pub(crate) mod write;

use namespace::{Inode, Share};
use store::View;
use wire::nfs3::Failure;

use crate::Metaserver;
use crate::errors::FileError;
use crate::files::{check_access, check_regular};
use crate::user::User;

/// Maximum of bytes of one READ or WRITE, and of the results of one READDIR.
pub(crate) const TRANSFER_BYTES_MAX: u32 = 1024 * 1024;

/// Converts a failure to version 3.
fn failure<F>(status: FileError, body: F) -> Failure<F> {
    Failure::new(status.into(), body)
}

/// Returns the inode of a handle, from a new view.
fn object(server: &Metaserver, handle: &[u8]) -> Result<Inode, FileError> {
    let view = server.machine.view()?;
    server.machine.inode_of(&*view, handle)
}

/// Returns the directory of a handle, which must be of the caller's export.
///
/// # Errors
/// `OtherFileSystem` for a handle of another export, `Stale` for a directory that is no longer in the export,
/// `NotDirectory`.
fn directory_in_export(
    server: &Metaserver,
    view: &dyn View,
    user: &User,
    handle: &[u8],
) -> Result<Inode, FileError> {
    if server.machine.export_of(handle)? != user.export {
        return Err(FileError::OtherFileSystem);
    }
    let dir = server.machine.inode_of(view, handle)?;
    dir.directory().ok_or(FileError::NotDirectory)?;
    server.admission.check_inside(view, user.export, &dir)?;
    Ok(dir)
}

/// Checks that the data of a file are available: the caller's rights, deny modes of NFSv4 opens, and no
/// pending truncation.
fn check_data(
    server: &Metaserver,
    view: &dyn View,
    user: &User,
    inode: &Inode,
    wanted: Share,
) -> Result<(), FileError> {
    check_regular(inode)?;
    check_access(server, view, user, inode, wanted)?;
    server.data.check_no_truncation(view, inode)
}
