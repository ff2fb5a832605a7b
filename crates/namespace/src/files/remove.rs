//! REMOVE and RMDIR, and what becomes of an inode without a name.
//!
//! A file that is still open, or that a client still has a layout of, stays as an orphan with no links until the last of
//! them ends. Then the inode goes, and with it the data of a small file; one
//! that has objects leaves a deferred operation: they are removed by whoever leads.

use store::StoreError;

use super::{entry, inline, unsettled, xattr};
use crate::states::delegation;
use crate::step::{Step, Stop};
use crate::{DataPlace, Error, Expect, File, Inode, InodeId, Reply, deferred, keys, read};

pub(crate) fn remove(step: &mut Step<'_>, dir: InodeId, name: &[u8], expect: Expect) -> Result<Reply, Stop> {
    let mut dir = step.directory(dir)?;
    let found = entry::find(step, dir.id, name)?.ok_or(Error::NoEntry)?;
    let inode = step.inode(found.inode)?;
    match (expect, inode.directory()) {
        (Expect::NotDirectory, Some(_)) => return Err(Error::IsDirectory.into()),
        (Expect::Directory, None) => return Err(Error::NotDirectory.into()),
        (Expect::Anything | Expect::Directory, Some(directory)) if directory.entries > 0 => {
            return Err(Error::NotEmpty.into());
        }
        (Expect::Anything | Expect::Directory | Expect::NotDirectory, _) => {}
    }
    delegation::check(step, inode.id)?;
    entry::take(step, &mut dir, name, found)?;
    if inode.directory().is_some() {
        dir.links -= 1; // its `..`
    }
    let change = dir.data_changed(step.now());
    step.put_inode(&dir)?;
    let inode = unname(step, inode)?;
    Ok(Reply::Removed { inode, dir: change })
}

/// Takes one name of `inode` away, whose entry is gone already, and lets the inode go when nothing holds it.
pub(crate) fn unname(step: &mut Step<'_>, mut inode: Inode) -> Result<Inode, StoreError> {
    inode.links = if inode.directory().is_some() { 0 } else { inode.links - 1 };
    inode.attributes_changed(step.now());
    if inode.links > 0 || read::in_use(step.view(), inode.id)? {
        step.put_inode(&inode)?;
    } else {
        discard(step, &inode)?;
    }
    Ok(inode)
}

/// An open or a layout of the file ended: an orphan that nothing holds any more goes.
pub(crate) fn discard_if_orphan(step: &mut Step<'_>, inode: InodeId) -> Result<(), StoreError> {
    if read::in_use(step.view(), inode)? {
        return Ok(());
    }
    match read::inode(step.view(), inode)? {
        Some(inode) if inode.links == 0 => discard(step, &inode),
        Some(_) | None => Ok(()),
    }
}

fn discard(step: &mut Step<'_>, inode: &Inode) -> Result<(), StoreError> {
    step.delete(&keys::inode(inode.id));
    step.count(|counters| counters.inodes -= 1)?;
    xattr::discard(step, inode.id)?;
    unsettled::discard(step, inode.id)?;
    if let Some(File { data: DataPlace::Inline | DataPlace::Migrating, .. }) = inode.file() {
        inline::forget(step, inode);
    }
    match inode.file() {
        Some(File { data: DataPlace::Migrating | DataPlace::Striped, layout }) => {
            deferred::remove_objects(step, inode, layout)
        }
        Some(File { data: DataPlace::Inline, .. }) | None => Ok(()),
    }
}
