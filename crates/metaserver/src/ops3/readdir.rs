//! READDIR (RFC 1813, section 3.3.16).

use std::ops::ControlFlow;

use namespace::{Inode, InodeId, read};
use store::View;
use wire::nfs3::PostOpAttr;
use wire::nfs3::readdir::{Args, Entry, RES_OK_BYTES_EMPTY, Res, ResFail, ResOk};

use super::{TRANSFER_BYTES_MAX, directory_in_export, failure};
use crate::Metaserver;
use crate::errors::FileError;
use crate::user::{Permission, User};

/// Cookies of `.` and `..`. Cookies of entries are higher and are never reused, so they need no verifier.
const COOKIE_SELF: u64 = 1;
const COOKIE_PARENT: u64 = 2;

/// Returns names in a directory.
pub(crate) fn readdir(server: &Metaserver, user: &User, args: Args) -> Res {
    let mut dir_attributes = None;
    match entries(server, user, &args, &mut dir_attributes) {
        Ok((entries, eof)) => Ok(ResOk { dir_attributes, cookieverf: [0; 8], entries: entries.into(), eof }),
        Err(status) => Err(failure(status, ResFail { dir_attributes })),
    }
}

fn entries(
    server: &Metaserver,
    user: &User,
    args: &Args,
    attributes: &mut PostOpAttr,
) -> Result<(Vec<Entry>, bool), FileError> {
    let view = server.machine.view()?;
    let dir = directory(server, user, &*view, &args.dir, attributes)?;
    let mut left = (args.count.min(TRANSFER_BYTES_MAX) as usize).saturating_sub(RES_OK_BYTES_EMPTY);
    let mut entries = Vec::new();
    let eof = list(&*view, &dir, user.export, args.cookie, |id, name, cookie| {
        let entry = Entry { fileid: id.0, name: name.into(), cookie };
        let Some(rest) = left.checked_sub(entry.encoded_bytes()) else { return ControlFlow::Break(()) };
        left = rest;
        entries.push(entry);
        ControlFlow::Continue(())
    })?;
    if entries.is_empty() && !eof {
        return Err(FileError::TooSmall);
    }
    Ok((entries, eof))
}

/// Returns the directory to list, and notes its attributes.
pub(super) fn directory(
    server: &Metaserver,
    user: &User,
    view: &dyn View,
    handle: &[u8],
    attributes: &mut PostOpAttr,
) -> Result<Inode, FileError> {
    *attributes = Some(server.attributes.fattr3(&server.machine.inode_of(view, handle)?));
    let dir = directory_in_export(server, view, user, handle)?;
    user.check(&dir, Permission::READ)?;
    Ok(dir)
}

/// Parent of a directory for `..`: the root of an export is its own parent, like the volume's root.
pub(super) fn parent_in_export(dir: &Inode, export: InodeId) -> Result<InodeId, FileError> {
    let parent = dir.directory().ok_or(FileError::NotDirectory)?.parent;
    Ok(if dir.id == export { export } else { parent })
}

/// Visits `.`, `..` and the entries with a cookie above `after`, until `visit` breaks. Returns true if it
/// never broke.
pub(super) fn list(
    view: &dyn View,
    dir: &Inode,
    export: InodeId,
    after: u64,
    mut visit: impl FnMut(InodeId, Vec<u8>, u64) -> ControlFlow<()>,
) -> Result<bool, FileError> {
    let parent = parent_in_export(dir, export)?;
    let dots = [(dir.id, &b"."[..], COOKIE_SELF), (parent, &b".."[..], COOKIE_PARENT)];
    for (id, name, cookie) in dots.into_iter().filter(|(.., cookie)| *cookie > after) {
        if visit(id, name.to_vec(), cookie).is_break() {
            return Ok(false);
        }
    }
    let mut eof = true;
    read::list(view, dir.id, after.max(COOKIE_PARENT), |entry| {
        let flow = visit(entry.inode, entry.name, entry.cookie);
        eof = flow.is_continue();
        flow
    })?;
    Ok(eof)
}
