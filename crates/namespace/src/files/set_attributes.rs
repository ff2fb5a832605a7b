//! SETATTR, and the changes of an inode by writes and stripe policies.
//!
//! A size set on a file with objects always leaves a truncation, even if the size is the same: clients write
//! to data servers first and report the size afterwards (LAYOUTCOMMIT). So objects may have bytes beyond the
//! end, which must not become visible when the file grows.

use super::{size, space_used, unsettled};
use crate::plan::{Plan, Stop};
use crate::snapshot::objects;
use crate::states::{delegation, layout_state};
use crate::{
    DataPlace, Error, File, Inode, InodeId, MODE_BITS, Reply, SET_ID_BITS, SIZE_BYTES_MAX, SetAttributes,
    StripePolicy, pools,
};

pub(crate) fn set_attributes(
    plan: &mut Plan<'_>,
    inode: InodeId,
    set: &SetAttributes,
) -> Result<Reply, Stop> {
    let mut inode = plan.inode(inode)?;
    if set.guard.is_some_and(|guard| guard != inode.changed) {
        return Err(Error::NotSync.into());
    }
    let file = inode.file();
    match (set.size, file) {
        (None, _) => {}
        (Some(_), None) if inode.directory().is_some() => return Err(Error::IsDirectory.into()),
        (Some(_), None) => return Err(Error::Invalid.into()),
        (Some(size), Some(_)) if size > SIZE_BYTES_MAX => return Err(Error::TooLarge.into()),
        (Some(_), Some(_)) => size::check(plan, &inode, set.layout_of)?,
    }
    // A holder of a layout writes unseen: its data would be in a program with the owner's rights. One that
    // the data servers have acknowledged before, and nobody has reported: see `unsettled::observe`.
    let sets_id = set.mode.is_some_and(|mode| mode & SET_ID_BITS & !inode.mode != 0);
    if sets_id && file.is_some() && layout_state::held_by_others(plan, inode.id, set.layout_of)? {
        return Err(Error::Delay.into());
    }
    delegation::check(plan, inode.id)?;

    if let Some(mode) = set.mode {
        inode.mode = mode & MODE_BITS;
    } else if file.is_some() && (set.uid.is_some() || set.gid.is_some()) {
        inode.mode &= !SET_ID_BITS;
    }
    inode.uid = set.uid.unwrap_or(inode.uid);
    inode.gid = set.gid.unwrap_or(inode.gid);
    if set.size.is_some() {
        inode.modified = plan.now();
    }
    inode.accessed = set.accessed.unwrap_or(inode.accessed);
    inode.modified = set.modified.unwrap_or(inode.modified);
    inode.attributes_changed(plan.now());
    if set.modified.is_some() && file.is_some() {
        unsettled::times_set(plan, &inode)?;
    }
    let deferred = match set.size {
        None => None,
        Some(size) => size::set(plan, &mut inode, size)?,
    };
    plan.put_inode(&inode)?;
    Ok(Reply::Attributes { inode, deferred })
}

/// Outcome of a write through a metaserver.
pub(crate) fn wrote(
    plan: &mut Plan<'_>,
    inode: InodeId,
    end: u64,
    bytes: u64,
    epoch: u32,
) -> Result<Reply, Stop> {
    let mut inode = plan.inode(inode)?;
    let file = file_of(&inode)?;
    if end > SIZE_BYTES_MAX {
        return Err(Error::TooLarge.into());
    }
    if inode.epoch != epoch || file.data != DataPlace::Striped {
        return Err(Error::Delay.into());
    }
    objects::check_own(plan, &inode)?;
    delegation::check(plan, inode.id)?;
    inode.wrote_bytes(end, bytes);
    inode.data_changed(plan.now());
    space_used::changed(plan, &mut inode);
    plan.put_inode(&inode)?;
    Ok(Reply::Attributes { inode, deferred: None })
}

/// File part of an inode for a write; an error for other kinds.
pub(super) fn file_of(inode: &Inode) -> Result<File, Error> {
    match (inode.file(), inode.directory()) {
        (Some(file), _) => Ok(file),
        (None, Some(_)) => Err(Error::IsDirectory),
        (None, None) => Err(Error::WrongType),
    }
}

pub(crate) fn set_stripe(
    plan: &mut Plan<'_>,
    dir: InodeId,
    policy: Option<StripePolicy>,
) -> Result<Reply, Stop> {
    let mut dir = plan.inode(dir)?;
    let stripe = &mut dir.directory_mut().ok_or(Error::NotDirectory)?.stripe;
    let before = std::mem::replace(stripe, policy);
    pools::policy_changes(plan, before, policy)?;
    dir.attributes_changed(plan.now());
    plan.put_inode(&dir)?;
    Ok(Reply::Attributes { inode: dir, deferred: None })
}
