//! Removal of a volume: one command, and bounded work after it.
//!
//! ```text
//! RemoveVolume      ─▶ entry and record gone, mark in table 32: handles of the volume are stale from now on
//! RemoveLeftovers   ─▶ 1,024 records more, and so on: names, cookies, then inodes with their states and data
//! ```
//!
//! Nothing new comes into a volume without a record (`volume::check_lives`), so one mark says how far the removal
//! is. The objects of a file are removed as for any file (`deferred.rs`).

use serde::{Deserialize, Serialize};

use super::{VolumeId, change_volumes, forget, quota};
use crate::clones;
use crate::files::{self, entry};
use crate::keys::Key;
use crate::plan::{Broken, Plan, Stop};
use crate::states::leftovers;
use crate::{Error, Inode, InodeId, RECORDS_OF_COMMAND_MAX, Reply, keys, read};

/// Progress of the removal of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeftVolume {
    /// Inodes that are still there; 0 of a clone, which has not all that it shows.
    pub inodes: u64,
    /// Next key to look at, in the order of [`TABLES`].
    pub at: Key,
}

/// Tables whose records are looked for, in this order: the entries first, of which a directory may have millions.
const TABLES: [u8; 4] = [keys::NAMES, keys::COOKIES, keys::USAGES, keys::INODES];

/// Removes the volume whose root is `name` in `dir`.
///
/// # Errors
/// `NotVolume` if the entry is none of a volume. `HoldsVolumes` if other volumes are in it, `HoldsSnapshots` if there
/// are some of it. Unless `force`: `NotEmpty` if it has files, `FilesOpen` if some of them are open.
pub(crate) fn remove(plan: &mut Plan<'_>, dir: InodeId, name: &[u8], force: bool) -> Result<Reply, Stop> {
    let mut dir = plan.directory_to_change(dir)?;
    let found = entry::find(plan, dir.id, name)?.ok_or(Error::NoEntry)?;
    let (root, id) = (found.inode, found.inode.volume());
    if id == dir.id.volume() {
        return Err(Error::NotVolume.into());
    }
    let volume = read::volume(plan.view(), id)?.ok_or(Broken("an entry is of a volume that is not there"))?;
    if volume.volumes > 0 {
        return Err(Error::HoldsVolumes.into());
    }
    let history = read::history(plan.view(), id)?;
    if history.count > 0 || history.rolls_back {
        return Err(Error::HoldsSnapshots.into());
    }
    if !force && leftovers::has_open_files(plan, id)? {
        return Err(Error::FilesOpen.into());
    }
    if !force && volume.usage.inodes > 1 {
        return Err(Error::NotEmpty.into());
    }
    entry::take(plan, &mut dir, name, found)?;
    dir.links = dir.links.checked_sub(1).ok_or(Broken("a directory has no link for a directory in it"))?;
    let change = dir.data_changed(plan.now());
    plan.put_inode(&dir)?;
    let inode = Inode { links: 0, ..plan.inode(root)? };
    change_volumes(plan, dir.id.volume(), |count| count.checked_sub(1))?;
    forget(plan, id)?;
    if history.kept == 0 {
        plan.delete(&keys::history(id));
    }
    let (at, _) = keys::of_volume(TABLES[0], id);
    let mut inodes = volume.usage.inodes;
    if id.is_clone() {
        clones::removed(plan, id)?;
        quota::count_inodes(plan, -(std::mem::take(&mut inodes) as i64))?;
    }
    plan.put(&keys::left_volume(id), &LeftVolume { inodes, at })?;
    plan.delete(&keys::left_count(id));
    if remove_some(plan, id)? {
        plan.delete(&keys::left_volume(id));
    }
    Ok(Reply::Removed { inode, dir: change })
}

/// Removes what is left of a volume, up to the bound of the command. Returns true if that is all.
pub(crate) fn remove_some(plan: &mut Plan<'_>, id: VolumeId) -> Result<bool, Stop> {
    let at = left(plan, id)?.at;
    let begun =
        TABLES.iter().position(|tag| at.first() == Some(tag)).ok_or(Broken("a removal is at no table"))?;
    for (table, tag) in TABLES.into_iter().enumerate().skip(begun) {
        let (first, end) = keys::of_volume(tag, id);
        let from = if table == begun { &at } else { &first };
        let some = read::some_keys(plan.view(), from, &end, RECORDS_OF_COMMAND_MAX)?;
        let mut is_last = some.len() < RECORDS_OF_COMMAND_MAX;
        let mut next = some.last().cloned().unwrap_or_default();
        for key in some {
            if plan.is_full() || !remove_record(plan, tag, &key)? {
                (is_last, next) = (false, key);
                break;
            }
        }
        if !is_last {
            return note(plan, id, next).map(|()| false);
        }
    }
    if !id.is_clone() {
        return Ok(true);
    }
    // Of files of which it had no records.
    Ok(leftovers::end_states(plan, |tag| keys::of_volume(tag, id))? && clones::forget_marks(plan, id)?)
}

/// Removes an entry, or an inode with its states and data. Returns false if some of its states are left.
pub(crate) fn remove_record(plan: &mut Plan<'_>, tag: u8, key: &[u8]) -> Result<bool, Stop> {
    if tag != keys::INODES {
        plan.delete(key);
        return Ok(true);
    }
    let id = InodeId(keys::number(key, 1));
    if !leftovers::end_states_of(plan, id)? {
        return Ok(false);
    }
    // A file without a name went with its last state.
    if let Some(inode) = read::inode(plan.view(), id)? {
        files::remove::discard(plan, &inode)?;
    }
    Ok(true)
}

/// Counts inodes that are deleted.
pub(super) fn settle(plan: &mut Plan<'_>, id: VolumeId, inodes: i64) -> Result<(), Stop> {
    // Without a mark its removal ended in this command.
    let Some(mut left) = read::left_volume(plan.view(), id)? else { return Ok(()) };
    left.inodes = left.inodes.checked_add_signed(inodes).ok_or(Broken("inodes go that were not counted"))?;
    Ok(plan.put(&keys::left_volume(id), &left)?)
}

fn left(plan: &Plan<'_>, id: VolumeId) -> Result<LeftVolume, Stop> {
    Ok(read::left_volume(plan.view(), id)?.ok_or(Broken("a volume is removed without a mark"))?)
}

/// Notes how far the removal is.
fn note(plan: &mut Plan<'_>, id: VolumeId, at: Key) -> Result<(), Stop> {
    let left = LeftVolume { at, ..left(plan, id)? };
    plan.put(&keys::left_volume(id), &left)?;
    plan.leave_work();
    Ok(())
}
