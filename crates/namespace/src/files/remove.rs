//! REMOVE and RMDIR, and the deletion of an inode without a name.
//!
//! A file that is still open, or of which a client still has a layout, stays without links as an orphan until
//! the last of these ends. Then the inode is deleted with its inline data. A file with objects leaves a
//! deferred operation: the leader removes the objects.

use super::{entry, inline, space_used, unsettled, xattr};
use crate::clones::promotion;
use crate::plan::{Broken, Plan, Stop};
use crate::snapshot::objects;
use crate::states::delegation;
use crate::{DataPlace, Error, Expect, File, Inode, InodeId, Reply, pools, read};

pub(crate) fn remove(plan: &mut Plan<'_>, dir: InodeId, name: &[u8], expect: Expect) -> Result<Reply, Stop> {
    let mut dir = plan.directory_to_change(dir)?;
    let found = entry::find(plan, dir.id, name)?.ok_or(Error::NoEntry)?;
    let inode = plan.inode(found.inode)?;
    if inode.id.is_read_only() {
        return Err(Error::ReadOnly.into());
    }
    match (expect, inode.directory()) {
        (Expect::NotDirectory, Some(_)) => return Err(Error::IsDirectory.into()),
        (Expect::Directory, None) => return Err(Error::NotDirectory.into()),
        (Expect::Anything | Expect::Directory, Some(_)) if inode.id.is_root() => {
            return Err(Error::VolumeRoot.into());
        }
        (Expect::Anything | Expect::Directory, Some(directory)) if directory.entries > 0 => {
            return Err(Error::NotEmpty.into());
        }
        (Expect::Anything | Expect::Directory | Expect::NotDirectory, _) => {}
    }
    delegation::check(plan, inode.id)?;
    entry::take(plan, &mut dir, name, found)?;
    if inode.directory().is_some() {
        // Its `..`.
        let links = dir.links.checked_sub(1);
        dir.links = links.ok_or(Broken("a directory has no link for a directory in it"))?;
    }
    let change = dir.data_changed(plan.now());
    plan.put_inode(&dir)?;
    let inode = unname(plan, inode)?;
    Ok(Reply::Removed { inode, dir: change })
}

/// Removes one link of `inode`, whose entry is removed already, and discards the inode if it is unused.
pub(crate) fn unname(plan: &mut Plan<'_>, mut inode: Inode) -> Result<Inode, Stop> {
    let others = inode.links.checked_sub(1).ok_or(Broken("a name is of an inode without links"))?;
    inode.links = if inode.directory().is_some() { 0 } else { others };
    inode.attributes_changed(plan.now());
    if inode.links > 0 || read::in_use(plan.view(), inode.id)? {
        plan.put_inode(&inode)?;
    } else {
        discard(plan, &inode)?;
    }
    Ok(inode)
}

/// Discards the file if it has no name and is unused, after an open or a layout of it has ended.
pub(crate) fn discard_if_orphan(plan: &mut Plan<'_>, inode: InodeId) -> Result<(), Stop> {
    if read::in_use(plan.view(), inode)? {
        return Ok(());
    }
    match read::inode(plan.view(), inode)? {
        Some(inode) if inode.links == 0 && !inode.id.is_read_only() => discard(plan, &inode),
        Some(_) | None => Ok(()),
    }
}

/// Deletes an unused inode with its data and attributes.
pub(crate) fn discard(plan: &mut Plan<'_>, inode: &Inode) -> Result<(), Stop> {
    plan.delete_inode(inode.id)?;
    pools::forget_directory(plan, inode)?;
    xattr::discard(plan, inode.id)?;
    unsettled::discard(plan, inode.id)?;
    if !inode.space_is_told {
        space_used::discard(plan, inode.id);
    }
    if let Some(File { data: DataPlace::Inline | DataPlace::Migrating, .. }) = inode.file() {
        inline::forget(plan, inode);
    }
    objects::discard(plan, inode)?;
    promotion::copied(plan, inode.id)
}
