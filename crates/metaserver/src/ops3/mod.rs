//! NFSv3's procedures, one file for each: check, command, reply.
//!
//! What both protocols do alike is in `files`. Here are the words of version 3, and the attributes that it
//! returns, with failures too (`wcc`).

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

/// Bytes of one READ or WRITE, and of one READDIR's results, at most.
pub(crate) const TRANSFER_BYTES_MAX: u32 = 1024 * 1024;

/// A failure in version 3's words.
fn failure<F>(status: FileError, body: F) -> Failure<F> {
    Failure::new(status.into(), body)
}

/// What a handle names, in a view of its own.
fn object(server: &Metaserver, handle: &[u8]) -> Result<Inode, FileError> {
    let view = server.machine.view()?;
    server.machine.inode_of(&*view, handle)
}

/// The directory that a handle of the caller's export names.
///
/// # Errors
/// `OtherExport` for a handle of another export, `Stale` for a directory that is no longer in the export, `NotDirectory`.
fn directory_in_export(
    server: &Metaserver,
    view: &dyn View,
    user: &User,
    handle: &[u8],
) -> Result<Inode, FileError> {
    if server.machine.export_of(handle)? != user.export {
        return Err(FileError::OtherExport);
    }
    let dir = server.machine.inode_of(view, handle)?;
    dir.directory().ok_or(FileError::NotDirectory)?;
    server.admission.check_inside(view, user.export, &dir)?;
    Ok(dir)
}

/// Checks that the data of a file can be used now: the caller's rights, deny modes of NFSv4 opens, and a
/// truncation that is pending.
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
