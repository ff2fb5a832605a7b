//! Promotion: a clone gets records and objects of its own for all that it has inherited, and is a volume as others then.
//!
//! ```text
//! Promote           ─▶ mark in table 32
//! RemoveLeftovers   ─▶ own records for what the origin shows, some in each command; a mark in table 68 for each file
//!                      whose objects are the origin's
//! CopyObjects, CopiedObjects by the leader, for each of these files
//! the last one      ─▶ the origin is forgotten
//! ```
//!
//! Nothing changes for clients meanwhile. A clone with snapshots is not promoted: they show what it inherits.

use serde::{Deserialize, Serialize};
use store::StoreError;

use super::{Stage, forget_marks, view};
use crate::keys::{self, Key};
use crate::plan::{Plan, Stop};
use crate::record::{CookieEntry, get};
use crate::{Error, InodeId, RECORDS_OF_COMMAND_MAX, Reply, VolumeId, read};

/// Records that one command takes over: each takes some ten reads.
const TAKEN_OVER_MAX: usize = RECORDS_OF_COMMAND_MAX / 8;
/// Inode numbers of a window.
const WINDOW: u64 = 256;
/// Windows that one command looks at: mostly few inodes are in those that follow the last one of the snapshot.
const WINDOWS_MAX: usize = 16;
/// Inodes whose records one command looks for.
const LOOKED_AT_MAX: usize = RECORDS_OF_COMMAND_MAX / 4;

/// Progress of a promotion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeftPromotion {
    /// Next key of the origin to look at.
    pub at: Key,
}

/// Begins to end what a clone shares with its snapshot.
///
/// # Errors
/// `Stale`; `NotClone`, also after the end of a promotion; `HoldsSnapshots`.
pub(crate) fn promote(plan: &mut Plan<'_>, id: VolumeId) -> Result<Reply, Stop> {
    if read::volume(plan.view(), id)?.is_none() {
        return Err(Error::Stale.into());
    }
    let mut origin = read::origin(plan.view(), id)?.ok_or(Error::NotClone)?;
    let history = read::history(plan.view(), id)?;
    if history.count > 0 || history.rolls_back {
        return Err(Error::HoldsSnapshots.into());
    }
    if origin.stage == Stage::Promotes {
        return Ok(Reply::Done);
    }
    origin.stage = Stage::Promotes;
    plan.put(&keys::origin(id), &origin)?;
    let at = keys::of_volume(keys::SHOWN[0], origin.snapshot).0;
    if !go_on(plan, id, LeftPromotion { at })? {
        plan.leave_work();
    }
    Ok(Reply::Done)
}

/// Takes over some records. Returns true if those were all.
pub(crate) fn go_on(plan: &mut Plan<'_>, id: VolumeId, mut left: LeftPromotion) -> Result<bool, Stop> {
    let mark = keys::left_promotion(id);
    let Some(origin) = view::inheriting(plan.view(), id)? else { return Ok(true) };
    let last_number = origin.snapshot.numbers()[0] + origin.first;
    let (mut looked_at, mut taken_over) = (0, 0);
    for _ in 0..WINDOWS_MAX {
        if left.at.first() == Some(&keys::NAMES) {
            left.at = keys::of_volume(keys::NAMES + 1, origin.snapshot).0;
        }
        let (tag, begin) = (left.at.first().copied().unwrap_or_default(), keys::number(&left.at, 1));
        let end = begin.saturating_add(WINDOW).min(last_number);
        for (from, to) in ranges(plan, tag, begin, end)? {
            let from = from.max(left.at.clone());
            let some = read::some_keys(plan.view(), &from, &to, TAKEN_OVER_MAX - taken_over)?;
            for there in &some {
                take_over(plan, &keys::moved(there, origin.snapshot, id))?;
            }
            (looked_at, taken_over) = (looked_at + 1, taken_over + some.len());
            if let Some(last) = some.last().filter(|_| taken_over == TAKEN_OVER_MAX) {
                left.at = [last.as_slice(), &[0]].concat();
                plan.put(&mark, &left)?;
                return Ok(false);
            }
        }
        let [_, last_tag] = keys::SHOWN;
        left.at = match end < last_number {
            true => keys::of(tag, &[end]),
            false if tag < last_tag => keys::of_volume(tag + 1, origin.snapshot).0,
            false => {
                plan.delete(&mark);
                end_if_done(plan, id)?;
                return Ok(true);
            }
        };
        if looked_at >= LOOKED_AT_MAX {
            break;
        }
    }
    plan.put(&mark, &left)?;
    Ok(false)
}

/// Ranges of a table for a window of inode numbers: of the inodes that the snapshot shows, since directories that were made
/// after it may have millions of entries.
fn ranges(plan: &Plan<'_>, tag: u8, begin: u64, end: u64) -> Result<Vec<(Key, Key)>, StoreError> {
    let [from, to] = [begin, end].map(|number| keys::of(keys::INODES, &[number]));
    if tag == keys::INODES {
        return Ok(vec![(from, to)]);
    }
    let shown = read::some_keys(plan.view(), &from, &to, usize::MAX)?;
    let of = |key: &Key| {
        let prefix = keys::of(tag, &[keys::number(key, 1)]);
        let end = keys::after(&prefix);
        (prefix, end)
    };
    Ok(shown.iter().map(of).collect())
}

/// Makes the record that a clone shows its own; with the entry of a directory its name, which no range of cookies bounds.
fn take_over(plan: &mut Plan<'_>, key: &[u8]) -> Result<(), Stop> {
    let Some(inode) = keys::inode_of(key) else { return Ok(()) };
    if key.first() == Some(&keys::COOKIES)
        && let Some(entry) = get::<CookieEntry>(plan.view(), key)?
    {
        take_over(plan, &keys::name(inode, &entry.name))?;
    }
    let (Some(value), Some(of)) = (plan.view().get(key)?, read::inode(plan.view(), inode)?) else {
        return Ok(()); // removed, or of a file without a name
    };
    plan.put_value(key, value);
    if key.first() == Some(&keys::INODES)
        && of.columns().is_some()
        && read::own_objects(plan.view(), inode)?.are_inherited()
    {
        plan.mark(&keys::to_copy(inode));
        plan.leave_work();
    }
    Ok(())
}

/// Notes that a file has objects of its own, or is removed.
pub(crate) fn copied(plan: &mut Plan<'_>, inode: InodeId) -> Result<(), Stop> {
    let mark = keys::to_copy(inode);
    if !inode.volume().is_clone() || plan.view().get(&mark)?.is_none() {
        return Ok(());
    }
    plan.delete(&mark);
    end_if_done(plan, inode.volume())
}

/// Ends a promotion after its last step.
fn end_if_done(plan: &mut Plan<'_>, id: VolumeId) -> Result<(), Stop> {
    let Some(origin) = read::origin(plan.view(), id)? else { return Ok(()) };
    let (from, to) = keys::of_volume(keys::TO_COPY, id);
    if origin.stage != Stage::Promotes
        || plan.view().get(&keys::left_promotion(id))?.is_some()
        || !read::some_keys(plan.view(), &from, &to, 1)?.is_empty()
    {
        return Ok(());
    }
    plan.delete(&keys::clone_of(origin.snapshot, id));
    plan.delete(&keys::origin(id));
    let left = keys::left_marks(id);
    match forget_marks(plan, id)? {
        true => plan.delete(&left),
        false => {
            plan.mark(&left);
            plan.leave_work();
        }
    }
    Ok(())
}
