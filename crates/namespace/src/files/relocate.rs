//! Relocation: columns without data get other targets, since theirs are full, failing or lost. Columns without copies
//! are put on open chains of their targets.

use super::set_attributes::file_of;
use crate::chain::open;
use crate::plan::{Plan, Stop};
use crate::snapshot::objects;
use crate::states::layout_state;
use crate::{DataPlace, Error, File, FileLayout, FileVersion, InodeId, Kind, Reply, deferred, read};

/// Replaces the layout `from` by `to`; a repetition has no effect.
pub(crate) fn relocate(
    plan: &mut Plan<'_>,
    inode: InodeId,
    from: FileLayout,
    to: FileLayout,
    checked: FileVersion,
) -> Result<Reply, Stop> {
    let mut inode = plan.inode(inode)?;
    let file = file_of(&inode)?;
    if file.layout == to {
        return Ok(Reply::Attributes { inode, deferred: None });
    }
    if file.layout != from || read::version(plan.view(), &inode)? != checked {
        return Err(Error::Delay.into());
    }
    if file.data == DataPlace::Striped {
        // Columns that stay may have data, whose offsets in the file must stay the same.
        if (to.unit, to.columns) != (from.unit, from.columns) {
            return Err(Error::Invalid.into());
        }
        // Layouts and pending truncations use the old targets.
        if layout_state::held_by_others(plan, inode.id, None)?
            || read::pending_truncation(plan.view(), inode.id)?
        {
            return Err(Error::Delay.into());
        }
        objects::check_own(plan, &inode)?;
        open::check_chains(plan, from, to)?;
    }
    // A write through a metaserver may be on its way to an old target: its `Wrote` will be refused. And so may a MAKE,
    // of a small file, too: a data server knows by the epoch which placement is the later one.
    inode.raise_epoch();
    inode.kind = Kind::File(File { layout: to, ..file });
    plan.put_inode(&inode)?;
    deferred::repeat_pending(plan, &inode)?;
    Ok(Reply::Attributes { inode, deferred: None })
}
