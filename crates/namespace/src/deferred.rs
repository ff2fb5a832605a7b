//! Deferred object operations: the intents that commands leave, and their outcome.

use store::StoreError;

use crate::plan::{Plan, Stop};
use crate::record::get;
use crate::{DeferredKind, DeferredOp, FileLayout, Inode, InodeId, Reply, keys, read};

/// Records a truncation of the objects of `inode` to `size`. A file has at most one: a pending truncation and
/// this one are merged to the smaller size, since every byte above it must be deleted. The record has a new
/// id, so that the outcome of the old one, whose work may be under way, does not count for it.
pub(crate) fn truncate(
    plan: &mut Plan<'_>,
    inode: &Inode,
    layout: FileLayout,
    size: u64,
) -> Result<u64, StoreError> {
    let size = match take_truncation(plan, inode)? {
        Some(pending) => pending.min(size),
        None => size,
    };
    take_fence(plan, inode)?;
    let id = add(plan, (inode.id, inode.generation), layout, DeferredKind::Truncate(size))?;
    plan.put(&keys::truncate(inode.id), &id)?;
    Ok(id)
}

/// Records that all data servers of `inode` must know its epoch. A pending truncation tells them, too: it is
/// recorded again, so that an outcome with an earlier epoch does not count.
pub(crate) fn fence(plan: &mut Plan<'_>, inode: &Inode, layout: FileLayout) -> Result<(), StoreError> {
    plan.leave_work();
    if let Some(size) = take_truncation(plan, inode)? {
        return truncate(plan, inode, layout, size).map(drop);
    }
    take_fence(plan, inode)?;
    let id = add(plan, (inode.id, inode.generation), layout, DeferredKind::Fence)?;
    plan.put(&keys::fence(inode.id), &id)
}

/// Records a pending truncation or fence of `inode` again, after a raise of its epoch.
pub(crate) fn repeat_pending(plan: &mut Plan<'_>, inode: &Inode) -> Result<(), StoreError> {
    match inode.columns() {
        Some(layout) if read::pending_fence(plan.view(), inode.id)? => fence(plan, inode, layout),
        Some(_) | None => Ok(()),
    }
}

/// Records a removal of the objects with this number.
pub(crate) fn remove_objects(
    plan: &mut Plan<'_>,
    objects: InodeId,
    generation: u32,
    layout: FileLayout,
) -> Result<(), StoreError> {
    plan.leave_work();
    add(plan, (objects, generation), layout, DeferredKind::Remove).map(drop)
}

/// Deletes a pending truncation or fence of a file that is deleted.
pub(crate) fn forget_pending(plan: &mut Plan<'_>, inode: &Inode) -> Result<(), StoreError> {
    take_truncation(plan, inode)?;
    take_fence(plan, inode)
}

/// True if the pending truncation of a file is to less than its size.
pub(crate) fn is_within(plan: &Plan<'_>, inode: InodeId) -> Result<bool, StoreError> {
    let size = read::inode(plan.view(), inode)?.map_or(0, |inode| inode.size);
    let Some(id) = get::<u64>(plan.view(), &keys::truncate(inode))? else { return Ok(false) };
    let pending: Option<DeferredOp> = get(plan.view(), &keys::deferred(id))?;
    Ok(pending.is_some_and(|op| matches!(op.kind, DeferredKind::Truncate(to) if to < size)))
}

/// Deletes the records with these ids, whose work is done. Unknown ids belong to operations that were merged,
/// or done before.
pub(crate) fn done(plan: &mut Plan<'_>, ids: &[u64]) -> Result<Reply, Stop> {
    for id in ids {
        let key = keys::deferred(*id);
        let Some(deferred) = get::<DeferredOp>(plan.view(), &key)? else { continue };
        plan.delete(&key);
        match deferred.kind {
            DeferredKind::Truncate(_) => plan.delete(&keys::truncate(deferred.inode)),
            DeferredKind::Fence => plan.delete(&keys::fence(deferred.inode)),
            DeferredKind::Remove => {}
        }
    }
    Ok(Reply::Done)
}

fn add(
    plan: &mut Plan<'_>,
    (inode, generation): (InodeId, u32),
    layout: FileLayout,
    kind: DeferredKind,
) -> Result<u64, StoreError> {
    let id = plan.count(|counters| {
        let id = counters.next_deferred;
        counters.next_deferred += 1;
        id
    })?;
    let deferred = DeferredOp { id, inode, generation, layout, kind };
    plan.put(&keys::deferred(id), &deferred)?;
    Ok(id)
}

/// Deletes the pending truncation of `inode`, and returns its size.
fn take_truncation(plan: &mut Plan<'_>, inode: &Inode) -> Result<Option<u64>, StoreError> {
    let index = keys::truncate(inode.id);
    let Some(id) = get::<u64>(plan.view(), &index)? else { return Ok(None) };
    plan.delete(&index);
    let key = keys::deferred(id);
    let pending: Option<DeferredOp> = get(plan.view(), &key)?;
    plan.delete(&key);
    Ok(pending.and_then(|pending| match pending.kind {
        DeferredKind::Truncate(size) => Some(size),
        DeferredKind::Remove | DeferredKind::Fence => None,
    }))
}

/// Deletes the pending fence of `inode`.
fn take_fence(plan: &mut Plan<'_>, inode: &Inode) -> Result<(), StoreError> {
    let index = keys::fence(inode.id);
    if let Some(id) = get::<u64>(plan.view(), &index)? {
        plan.delete(&index);
        plan.delete(&keys::deferred(id));
    }
    Ok(())
}
