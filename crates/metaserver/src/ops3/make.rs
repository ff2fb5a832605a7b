//! Common parts of CREATE, MKDIR, SYMLINK and MKNOD.

use namespace::{CallId, Change, Command, Exists, Inode, NewNode, Reply};
use wire::nfs3::{DirOpArgs, PostOpFh, SetAttr};

use super::entry::{self, Entry};
use super::wcc::Wcc;
use crate::errors::FileError;
use crate::exports::admission::Via;
use crate::user::User;
use crate::{Metaserver, files};

/// Looks up the place of a new inode. The caller must check for an existing name before permissions: `mkdir
/// -p` relies on it.
pub(crate) fn find(
    server: &Metaserver,
    user: &User,
    at: &DirOpArgs,
    wcc: &mut Wcc,
) -> Result<Entry, FileError> {
    entry::find(server, user, at, wcc).map_err(|status| match status {
        FileError::BadName => FileError::Exists, // "." and ".."
        other => other,
    })
}

/// Refuses a new inode with the error `why`, after a look-up that notes the directory for the reply.
pub(crate) fn refuse(
    server: &Metaserver,
    user: &User,
    at: &DirOpArgs,
    wcc: &mut Wcc,
    why: FileError,
) -> Result<(), FileError> {
    find(server, user, at, wcc)?;
    Err(why)
}

/// Returns the command for a new inode, if the caller may make it.
pub(crate) fn command(
    server: &Metaserver,
    user: &User,
    at: Entry,
    node: NewNode,
    set: &SetAttr,
    exists: Exists,
) -> Result<Command, FileError> {
    let asked = server.attributes.asked3(user, set)?;
    files::make::create(user, &at.dir, at.name, node, &asked, exists)
}

/// Checks that the name is free, and makes an inode that is not a regular file.
pub(crate) async fn make_new(
    server: &Metaserver,
    user: &User,
    call: &CallId,
    at: &DirOpArgs,
    node: NewNode,
    set: &SetAttr,
    wcc: &mut Wcc,
) -> Result<(Inode, Change), FileError> {
    let checked = find(server, user, at, wcc).and_then(|at| match at.found {
        Some(_) => Err(FileError::Exists),
        None => command(server, user, at, node, set, Exists::Refuse),
    });
    match server.change3(call, 0, checked).await? {
        Reply::Created { inode, dir, .. } => Ok((inode, dir)),
        _ => Err(FileError::Fault),
    }
}

/// Handle of the new inode.
pub(crate) fn handle(server: &Metaserver, user: &User, inode: &Inode) -> PostOpFh {
    Some(server.machine.handle(Via::Export(user.export), inode.id, inode.generation).into())
}
