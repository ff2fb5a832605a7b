//! Columns that hold nothing get other targets: those that they had are full, failing or lost.

use super::set_attributes::file_of;
use crate::plan::{Plan, Stop};
use crate::states::layout_state;
use crate::{DataPlace, Error, File, FileLayout, InodeId, Kind, Reply, read};

/// Puts `to` in the place of `from`, once however often it is asked for.
pub(crate) fn relocate(
    plan: &mut Plan<'_>,
    inode: InodeId,
    from: FileLayout,
    to: FileLayout,
) -> Result<Reply, Stop> {
    let mut inode = plan.inode(inode)?;
    let file = file_of(&inode)?;
    if file.layout == to {
        return Ok(Reply::Attributes { inode, deferred: None });
    }
    if file.layout != from {
        return Err(Error::Delay.into());
    }
    if file.data == DataPlace::Striped {
        // Other columns may hold data, whose places in the file must stay.
        if (to.unit, to.columns) != (from.unit, from.columns) {
            return Err(Error::Invalid.into());
        }
        // A layout names the old targets, and so does a pending truncation.
        if layout_state::held_by_others(plan, inode.id, None)?
            || read::pending_truncation(plan.view(), inode.id)?
        {
            return Err(Error::Delay.into());
        }
        // A write through a metaserver that began before may be on its way to an old target: its `Wrote` is
        // refused.
        inode.moved();
    }
    inode.kind = Kind::File(File { layout: to, ..file });
    plan.put_inode(&inode)?;
    Ok(Reply::Attributes { inode, deferred: None })
}
