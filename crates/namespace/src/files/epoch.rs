//! Object epochs: a raise makes handles of a file's objects void that were made before.
//!
//! ```text
//! truncation, relocation            raise, and calls with the new epoch follow
//! a call without an answer          RaiseEpoch, before its client may repeat the request
//! a second try of a migration       raise
//! a request that another metaserver may carry out, too    ClaimWrite, before its first byte is written
//! a layout to write was revoked     fence: a raise for layouts, too, which all data servers must know
//! ```
//!
//! A raise makes calls of metaservers void, a fence also the handles of layouts: those of clients that keep
//! their layouts, too, which ask for new ones. A data server compares the epoch of each call with the highest
//! one that it has seen for the object. A call with a later epoch ends all calls with earlier ones first.

use crate::plan::{Plan, Stop};
use crate::states::layout_state;
use crate::{CompoundRequest, DataPlace, Error, File, InodeId, Reply, deferred, read, slot};

/// Raises the epoch of a striped file if it is `epoch`.
pub(crate) fn raise(plan: &mut Plan<'_>, inode: InodeId, epoch: u32) -> Result<Reply, Stop> {
    let mut inode = plan.inode(inode)?;
    if inode.columns().is_some() && inode.epoch == epoch {
        inode.raise_epoch();
        plan.put_inode(&inode)?;
        deferred::repeat_pending(plan, &inode)?;
    }
    Ok(Reply::Attributes { inode, deferred: None })
}

/// Raises the epoch of a file for a request that another metaserver may be carrying out, too.
///
/// `Misordered` once the change that ends the request was made: its client may have written other data since.
pub(crate) fn claim(
    plan: &mut Plan<'_>,
    inode: InodeId,
    id: u64,
    of: &CompoundRequest,
) -> Result<Reply, Stop> {
    if slot::reply(plan.view(), of)?.is_some() {
        return Err(Error::Misordered.into());
    }
    let mut inode = plan.inode(inode)?;
    if inode.columns().is_some() {
        inode.raise_epoch();
        plan.put_inode(&inode)?;
        deferred::repeat_pending(plan, &inode)?;
    }
    Ok(Reply::Claimed { id })
}

/// Fences a file whose layout to write was revoked.
pub(crate) fn fence(plan: &mut Plan<'_>, inode: InodeId) -> Result<(), Stop> {
    let Some(mut inode) = read::inode(plan.view(), inode)? else { return Ok(()) };
    if let Some(File { data: DataPlace::Striped, layout }) = inode.file() {
        inode.fence();
        plan.put_inode(&inode)?;
        deferred::fence(plan, &inode, layout)?;
    }
    Ok(())
}

/// True if a client that has no layout to write of the file any more may still write: not all data servers
/// know the file's epoch, or its layout is a leftover.
pub(crate) fn is_unfenced(plan: &Plan<'_>, inode: InodeId) -> Result<bool, Stop> {
    Ok(read::pending_fence(plan.view(), inode)? || layout_state::is_left(plan, inode)?)
}
