//! Space that files take on the data servers: `du`.
//!
//! ```text
//! Wrote, truncation, Migrated ─▶ not told ─▶ the leader asks the data servers ─▶ SpaceUsed ─▶ told
//! Observe ─▶ as observed
//! ```

use crate::plan::{Plan, Stop};
use crate::{Inode, Reply, SpaceUsed, keys, read};

/// Notes that the objects of a file may take other space. The caller puts the inode.
pub(crate) fn changed(plan: &mut Plan<'_>, inode: &mut Inode) {
    if inode.columns().is_some() && std::mem::replace(&mut inode.space_is_told, false) {
        plan.mark(&keys::space_untold(inode.id));
    }
}

/// Takes what data servers told. What they told before a later change of the file is skipped: they are asked again.
pub(crate) fn told(plan: &mut Plan<'_>, files: &[SpaceUsed]) -> Result<Reply, Stop> {
    for told in files {
        let Some(mut inode) = read::inode(plan.view(), told.inode)? else { continue };
        let is_same = (inode.epoch, inode.change) == (told.epoch, told.change);
        if inode.space_is_told || !is_same {
            continue;
        }
        inode.space_used = told.bytes;
        inode.space_is_told = true;
        discard(plan, inode.id);
        plan.put_inode(&inode)?;
    }
    Ok(Reply::Done)
}

/// Deletes the mark of a file.
pub(crate) fn discard(plan: &mut Plan<'_>, inode: crate::InodeId) {
    plan.delete(&keys::space_untold(inode));
}
