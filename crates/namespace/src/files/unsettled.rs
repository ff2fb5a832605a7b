//! Unsettled files: what the data servers acknowledged counts, whether the client tells it (LAYOUTCOMMIT) or not. See
//! [`Unsettled`].

use store::StoreError;

use crate::step::{Step, Stop};
use crate::{Inode, InodeId, Observation, Reply, SIZE_BYTES_MAX, Time, Unsettled, keys, read};

/// A layout to write is granted: the inode says what the objects had at `version`, unless it is known better.
pub(crate) fn mark(step: &mut Step<'_>, inode: InodeId, version: u64) -> Result<(), StoreError> {
    let version = read::unsettled(step.view(), inode)?.map_or(version, |known| known.version);
    let grant = step.random();
    step.put(&keys::unsettled(inode), &Unsettled { grant, version })
}

/// The number of layouts to write moved. A file without one is to be settled.
pub(crate) fn used(step: &mut Step<'_>, inode: InodeId, layouts_before: u32, layouts: u32) {
    let key = keys::to_settle(inode);
    match (layouts_before, layouts) {
        (0, 0) => {}
        (0, _) => step.delete(&key),
        (_, 0) => step.mark(&key),
        _ => {}
    }
}

/// The file is gone.
pub(crate) fn discard(step: &mut Step<'_>, inode: InodeId) -> Result<(), StoreError> {
    if read::unsettled(step.view(), inode)?.is_none() {
        return Ok(());
    }
    step.delete(&keys::unsettled(inode));
    step.delete(&keys::to_settle(inode));
    Ok(())
}

pub(crate) fn observe(step: &mut Step<'_>, files: &[Observation]) -> Result<Reply, Stop> {
    for observed in files {
        let Some(mut inode) = read::inode(step.view(), observed.inode)? else { continue };
        let Some(mut mark) = read::unsettled(step.view(), observed.inode)? else { continue };
        if inode.truncations != observed.truncations {
            continue;
        }
        let news = mark.version != observed.version;
        if news {
            let modified = take(&mut inode, &mut mark, observed, step.now());
            inode.data_changed(step.now());
            inode.modified = modified;
            step.put_inode(&inode)?;
        }
        let settles = observed.durable && mark.grant == observed.grant;
        if settles && step.view().get(&keys::to_settle(inode.id))?.is_some() {
            discard(step, inode.id)?;
        } else if news {
            step.put(&keys::unsettled(inode.id), &mark)?;
        }
    }
    Ok(Reply::Done)
}

/// What the data servers know when a client commits what it wrote; the inode is the caller's to put, with its times.
pub(crate) fn committed(
    step: &mut Step<'_>,
    inode: &mut Inode,
    observed: &Observation,
) -> Result<(), StoreError> {
    let Some(mut mark) = read::unsettled(step.view(), inode.id)? else { return Ok(()) };
    if observed.inode != inode.id
        || observed.truncations != inode.truncations
        || observed.version == mark.version
    {
        return Ok(());
    }
    take(inode, &mut mark, observed, step.now());
    step.put(&keys::unsettled(inode.id), &mark)
}

/// Takes size and version. Returns the modification time that follows: it never goes back, and is never in the future,
/// whatever clock a data server has.
fn take(inode: &mut Inode, mark: &mut Unsettled, observed: &Observation, now: Time) -> Time {
    mark.version = observed.version;
    inode.wrote(observed.end.min(SIZE_BYTES_MAX));
    inode.modified.max(observed.modified.min(now))
}
