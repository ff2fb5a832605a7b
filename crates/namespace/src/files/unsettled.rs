//! Unsettled files: data acknowledged by data servers belong to the file even without LAYOUTCOMMIT. See
//! [`Unsettled`].

use store::StoreError;

use super::space_used;
use crate::plan::{Plan, Stop};
use crate::{Inode, InodeId, Observation, Reply, SET_ID_BITS, SIZE_BYTES_MAX, Time, Unsettled, keys, read};

/// Marks a file as unsettled at the grant of a layout to write. Without an earlier mark, its inode matches
/// the objects at `version`.
pub(crate) fn mark(plan: &mut Plan<'_>, inode: InodeId, version: u64) -> Result<(), StoreError> {
    let known = read::unsettled(plan.view(), inode)?;
    let mark = known.unwrap_or(Unsettled { grant: 0, version, times_set: 0 });
    plan.put(&keys::unsettled(inode), &Unsettled { grant: plan.random(), ..mark })
}

/// Notes a change of the file's modification time by SETATTR: see [`Unsettled::times_set`].
pub(crate) fn times_set(plan: &mut Plan<'_>, inode: &Inode) -> Result<(), StoreError> {
    let Some(mark) = read::unsettled(plan.view(), inode.id)? else { return Ok(()) };
    plan.put(&keys::unsettled(inode.id), &Unsettled { times_set: inode.change, ..mark })
}

/// Follows the number of layouts to write. A file without one is to be settled.
pub(crate) fn used(plan: &mut Plan<'_>, inode: InodeId, layouts_before: u32, layouts: u32) {
    let key = keys::to_settle(inode);
    match (layouts_before, layouts) {
        (0, 0) => {}
        (0, _) => plan.delete(&key),
        (_, 0) => plan.mark(&key),
        _ => {}
    }
}

/// Deletes the marks of a deleted file.
pub(crate) fn discard(plan: &mut Plan<'_>, inode: InodeId) -> Result<(), StoreError> {
    if read::unsettled(plan.view(), inode)?.is_none() {
        return Ok(());
    }
    plan.delete(&keys::unsettled(inode));
    plan.delete(&keys::to_settle(inode));
    Ok(())
}

pub(crate) fn observe(plan: &mut Plan<'_>, files: &[Observation]) -> Result<Reply, Stop> {
    for observed in files {
        let Some(mut inode) = read::inode(plan.view(), observed.inode)? else { continue };
        let Some(mut mark) = read::unsettled(plan.view(), observed.inode)? else { continue };
        if inode.epoch != observed.epoch {
            continue;
        }
        let news = mark.version != observed.version;
        if news {
            let modified = take(plan, &mut inode, &mut mark, observed);
            inode.data_changed(plan.now());
            inode.modified = modified;
            // By whom these data are, is not known: as with a write by another than the owner.
            inode.mode &= !SET_ID_BITS;
            plan.put_inode(&inode)?;
        } else if let Some(bytes) = observed.space_used.filter(|bytes| *bytes != inode.space_used) {
            // More or less than before the data were on the disk.
            inode.space_used = bytes;
            plan.put_inode(&inode)?;
        }
        let settles = observed.durable && mark.grant == observed.grant;
        if settles && plan.view().get(&keys::to_settle(inode.id))?.is_some() {
            discard(plan, inode.id)?;
        } else if news {
            plan.put(&keys::unsettled(inode.id), &mark)?;
        }
    }
    Ok(Reply::Done)
}

/// Takes an observation of the data servers with a LAYOUTCOMMIT. The caller puts the inode, and sets its
/// times.
pub(crate) fn committed(
    plan: &mut Plan<'_>,
    inode: &mut Inode,
    observed: &Observation,
) -> Result<(), StoreError> {
    let Some(mut mark) = read::unsettled(plan.view(), inode.id)? else { return Ok(()) };
    if observed.inode != inode.id || observed.epoch != inode.epoch || observed.version == mark.version {
        return Ok(());
    }
    take(plan, inode, &mut mark, observed);
    plan.put(&keys::unsettled(inode.id), &mark)
}

/// Takes size, space and version from an observation. Returns the resulting modification time: it never goes back,
/// and is never in the future, whatever the clock of a data server.
fn take(plan: &mut Plan<'_>, inode: &mut Inode, mark: &mut Unsettled, observed: &Observation) -> Time {
    mark.version = observed.version;
    inode.wrote(observed.end.min(SIZE_BYTES_MAX));
    match observed.space_used {
        Some(bytes) => inode.space_used = bytes,
        None => space_used::changed(plan, inode),
    }
    inode.modified.max(observed.modified.min(plan.now()))
}
