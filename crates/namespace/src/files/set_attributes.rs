//! SETATTR, and what writes and stripe policies change about an inode.
//!
//! Setting a size always leaves a cut behind, even to the size that the file has: clients write to data servers first
//! and tell the size afterwards (LAYOUTCOMMIT), so objects may hold bytes beyond the end, which must not come to light
//! when the file grows over them.

use crate::states::layout_state;
use crate::step::{Step, Stop};
use crate::{
    Error, InodeId, MODE_BITS, Reply, SET_ID_BITS, SIZE_BYTES_MAX, SetAttributes, StripePolicy, work,
};

pub(crate) fn set_attributes(
    step: &mut Step<'_>,
    inode: InodeId,
    set: &SetAttributes,
) -> Result<Reply, Stop> {
    let mut inode = step.inode(inode)?;
    if set.guard.is_some_and(|guard| guard != inode.changed) {
        return Err(Error::NotSync.into());
    }
    let layout = inode.layout();
    let cut = match (set.size, layout) {
        (None, _) => None,
        (Some(_), None) if inode.directory().is_some() => return Err(Error::IsDirectory.into()),
        (Some(_), None) => return Err(Error::Invalid.into()),
        (Some(size), Some(_)) if size > SIZE_BYTES_MAX => return Err(Error::TooLarge.into()),
        (Some(size), Some(layout)) => Some((size, layout)),
    };

    if let Some(mode) = set.mode {
        inode.mode = mode & MODE_BITS;
    } else if layout.is_some() && (set.uid.is_some() || set.gid.is_some()) {
        inode.mode &= !SET_ID_BITS;
    }
    inode.uid = set.uid.unwrap_or(inode.uid);
    inode.gid = set.gid.unwrap_or(inode.gid);
    if cut.is_some() {
        inode.modified = step.now();
    }
    inode.accessed = set.accessed.unwrap_or(inode.accessed);
    inode.modified = set.modified.unwrap_or(inode.modified);
    inode.attributes_changed(step.now());
    if set.modified.is_some() && layout.is_some() {
        layout_state::times_set(step, inode.id)?;
    }
    let work = match cut {
        None => None,
        Some((size, layout)) => {
            inode.resize(size);
            Some(work::cut(step, &inode, layout, size)?)
        }
    };
    step.put_inode(&inode)?;
    Ok(Reply::Attributes { inode, work })
}

/// Data were written through a metaserver.
pub(crate) fn wrote(step: &mut Step<'_>, inode: InodeId, end: u64, cuts: u32) -> Result<Reply, Stop> {
    let mut inode = step.inode(inode)?;
    if inode.layout().is_none() {
        return Err(if inode.directory().is_some() { Error::IsDirectory } else { Error::WrongType }.into());
    }
    if end > SIZE_BYTES_MAX {
        return Err(Error::TooLarge.into());
    }
    if inode.cuts != cuts {
        return Err(Error::Delay.into());
    }
    inode.wrote(end);
    inode.data_changed(step.now());
    step.put_inode(&inode)?;
    Ok(Reply::Attributes { inode, work: None })
}

pub(crate) fn set_stripe(
    step: &mut Step<'_>,
    dir: InodeId,
    policy: Option<StripePolicy>,
) -> Result<Reply, Stop> {
    let mut dir = step.inode(dir)?;
    dir.directory_mut().ok_or(Error::NotDirectory)?.stripe = policy;
    dir.attributes_changed(step.now());
    step.put_inode(&dir)?;
    Ok(Reply::Attributes { inode: dir, work: None })
}
