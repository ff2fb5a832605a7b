//! READDIRPLUS (RFC 1813, section 3.3.17).

use std::ops::ControlFlow;

use namespace::{InodeId, read};
use wire::nfs3::PostOpAttr;
use wire::nfs3::readdirplus::{Args, Entry, RES_OK_BYTES_EMPTY, Res, ResFail, ResOk};

use super::readdir::{directory, list};
use super::{TRANSFER_BYTES_MAX, failure};
use crate::Metaserver;
use crate::errors::FileError;
use crate::exports::admission::Via;
use crate::user::User;

/// Returns names in a directory, with attributes and handles.
pub(crate) fn readdirplus(server: &Metaserver, user: &User, args: Args) -> Res {
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
    let via = Via::Export(user.export);
    let (dir_attributes, dir_handle) = (*attributes, server.machine.handle(via, dir.id, dir.generation));
    let mut left = (args.maxcount.min(TRANSFER_BYTES_MAX) as usize).saturating_sub(RES_OK_BYTES_EMPTY);
    let mut dir_left = args.dircount as usize;
    let mut listed = Vec::new();
    let eof = list(&*view, &dir, user.export, args.cookie, |id, name, cookie| {
        // All attributes have the same size, and all handles: those of the directory are placeholders during
        // the scan.
        let (name_attributes, name_handle) = (dir_attributes, Some(dir_handle.clone().into()));
        let entry = Entry { fileid: id.0, name: name.into(), cookie, name_attributes, name_handle };
        let Some(rest) = left.checked_sub(entry.encoded_bytes()) else { return ControlFlow::Break(()) };
        // One entry is returned even beyond `dircount`, so that the client makes progress.
        if dir_left < entry.dir_bytes() && !listed.is_empty() {
            return ControlFlow::Break(());
        }
        left = rest;
        dir_left = dir_left.saturating_sub(entry.dir_bytes());
        listed.push(entry);
        ControlFlow::Continue(())
    })?;
    if listed.is_empty() && !eof {
        return Err(FileError::TooSmall);
    }
    for entry in &mut listed {
        let inode = read::inode(&*view, InodeId(entry.fileid))?;
        entry.name_attributes = inode.as_ref().and_then(|inode| server.attributes.told3(inode));
        entry.name_handle = inode.map(|inode| server.machine.handle(via, inode.id, inode.generation).into());
    }
    Ok((listed, eof))
}
