//! Locked ranges of one lock state: a set of disjoint ranges, in which ranges of the same kind never touch. A
//! new range replaces the covered parts of the owner's own ranges:
//!
//! ```text
//! held      ├─ read ──────────────────────┤
//! locked              ├─ write ─┤
//! then      ├─ read ──┼─ write ─┼─ read ──┤
//! ```
//!
//! **Bounded.** A request that touches at most [`RANGES_TOUCHED_MAX`] ranges of its owner changes them. A
//! request that touches more, such as an unlock of the whole file, marks the set as left, for a later removal
//! (`leftovers.rs`), and begins a new set with the ranges that it does not touch. If these are too many as
//! well, the request is refused (RFC 8881, sections 18.10.3 and 18.12.3: NFS4ERR_LOCK_RANGE).

use store::StoreError;

use super::{leftovers, table};
use crate::plan::{Broken, Plan, Stop};
use crate::record::{HeldLock, LeftRanges, RangeOf};
use crate::{ByteRange, Error, LockKind, LockState, RECORDS_OF_COMMAND_MAX, keys, read};

/// Maximum of its owner's ranges that one request changes: three records each.
pub(super) const RANGES_TOUCHED_MAX: usize = RECORDS_OF_COMMAND_MAX / 3;

/// A range and its kind.
type Range = (ByteRange, LockKind);

/// First ranges of a set that end at `from` or later, at most `max`.
fn ending_from(plan: &Plan<'_>, set: u64, from: u64, max: usize) -> Result<Vec<Range>, StoreError> {
    let to = keys::after(&keys::of(keys::LOCKS, &[set]));
    let some = read::collect_some::<HeldLock>(plan.view(), &keys::lock(set, from), &to, max)?;
    let range = |(key, HeldLock { start, kind, .. }): (keys::Key, HeldLock)| {
        (ByteRange { start, end: keys::number(&key, 9) }, kind)
    };
    Ok(some.into_iter().map(range).collect())
}

/// True if a change of `range` touches more of the owner's ranges than one request may change.
pub(super) fn touches_many(plan: &Plan<'_>, lock: &LockState, range: ByteRange) -> Result<bool, StoreError> {
    if lock.ranges as usize <= RANGES_TOUCHED_MAX {
        return Ok(false);
    }
    Ok(touched(plan, lock, range)?.len() > RANGES_TOUCHED_MAX)
}

/// Ranges that overlap or touch `range`; at most one more than a request may change.
fn touched(plan: &Plan<'_>, lock: &LockState, range: ByteRange) -> Result<Vec<Range>, StoreError> {
    let mut some = ending_from(plan, lock.set, range.start, RANGES_TOUCHED_MAX + 1)?;
    some.retain(|(held, _)| held.start <= range.end);
    Ok(some)
}

/// Removes `range` from the ranges of the state. Touching ranges of the `joining` kind are removed as a
/// whole; returns `range` extended over them.
pub(super) fn cover(
    plan: &mut Plan<'_>,
    lock: &mut LockState,
    range: ByteRange,
    joining: Option<LockKind>,
) -> Result<ByteRange, Stop> {
    if touches_many(plan, lock, range)? {
        begin_new_set(plan, lock, range)?;
    }
    let mut widened = range;
    for (held, kind) in touched(plan, lock, range)? {
        if Some(kind) == joining {
            widened.start = widened.start.min(held.start);
            widened.end = widened.end.max(held.end);
            take(plan, lock, held, kind)?;
        } else if held.start < range.end && held.end > range.start {
            take(plan, lock, held, kind)?;
            if held.start < range.start {
                put(plan, lock, ByteRange { start: held.start, end: range.start }, kind)?;
            }
            if held.end > range.end {
                put(plan, lock, ByteRange { start: range.end, end: held.end }, kind)?;
            }
        }
    }
    Ok(widened)
}

/// Marks the set of the state as left, and begins a new set without the ranges within `range`.
fn begin_new_set(plan: &mut Plan<'_>, lock: &mut LockState, range: ByteRange) -> Result<(), Stop> {
    let mut kept = ending_from(plan, lock.set, 0, RANGES_TOUCHED_MAX + 1)?;
    kept.retain(|(held, _)| held.start < range.start);
    kept.extend(ending_from(plan, lock.set, range.end, RANGES_TOUCHED_MAX + 1)?);
    if kept.len() > RANGES_TOUCHED_MAX {
        return Err(Error::LockRange.into());
    }
    kept.dedup(); // a range that extends beyond both ends
    leftovers::of_set(plan, lock.set)?;
    lock.set = table::new_stateid(plan)?.id.0;
    lock.ranges = 0;
    for (held, kind) in kept {
        put(plan, lock, held, kind)?;
    }
    Ok(())
}

/// Adds a range that touches no range of the same kind.
pub(super) fn put(
    plan: &mut Plan<'_>,
    lock: &mut LockState,
    range: ByteRange,
    kind: LockKind,
) -> Result<(), StoreError> {
    lock.ranges += 1;
    let (inode, set, state) = (lock.inode, lock.set, lock.stateid.id);
    plan.put(&keys::lock(set, range.end), &HeldLock { start: range.start, kind, inode })?;
    let by_end = RangeOf { state, other_end: range.start };
    match kind {
        LockKind::Write => plan.put(&keys::write_lock(inode, range.end, set), &by_end),
        LockKind::Read => {
            let fork = read::fork(range);
            plan.put(&keys::read_lock_by_end(inode, fork, range.end, set), &by_end)?;
            let by_start = RangeOf { state, other_end: range.end };
            plan.put(&keys::read_lock_by_start(inode, fork, range.start, set), &by_start)
        }
    }
}

fn take(plan: &mut Plan<'_>, lock: &mut LockState, range: ByteRange, kind: LockKind) -> Result<(), Broken> {
    lock.ranges =
        lock.ranges.checked_sub(1).ok_or(Broken("a lock state holds more ranges than it counts"))?;
    delete(plan, lock.set, range, HeldLock { start: range.start, kind, inode: lock.inode });
    Ok(())
}

fn delete(plan: &mut Plan<'_>, set: u64, range: ByteRange, held: HeldLock) {
    plan.delete(&keys::lock(set, range.end));
    match held.kind {
        LockKind::Write => plan.delete(&keys::write_lock(held.inode, range.end, set)),
        LockKind::Read => {
            let fork = read::fork(range);
            plan.delete(&keys::read_lock_by_end(held.inode, fork, range.end, set));
            plan.delete(&keys::read_lock_by_start(held.inode, fork, range.start, set));
        }
    }
}

/// Removes the ranges of a set without a lock state, up to the bound of the command. Returns where to go on,
/// if there are more.
pub(super) fn remove(
    plan: &mut Plan<'_>,
    set: u64,
    mut done: LeftRanges,
) -> Result<Option<LeftRanges>, StoreError> {
    let to = keys::after(&keys::of(keys::LOCKS, &[set]));
    let from = keys::lock(set, done.after.saturating_add(1));
    let some = read::collect_some::<HeldLock>(plan.view(), &from, &to, RECORDS_OF_COMMAND_MAX)?;
    let is_last = some.len() < RECORDS_OF_COMMAND_MAX;
    for (key, held) in some {
        if plan.is_full() {
            return Ok(Some(done));
        }
        let end = keys::number(&key, 9);
        delete(plan, set, ByteRange { start: held.start, end }, held);
        done.after = end;
    }
    Ok(if is_last { None } else { Some(done) })
}
