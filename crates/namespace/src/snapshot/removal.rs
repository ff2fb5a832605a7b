//! Removal of a snapshot: one command, and bounded work after it.
//!
//! ```text
//! RemoveSnapshot    ─▶ its records gone, mark in table 32: its handles are stale from now on
//! RemoveLeftovers   ─▶ its states end; each value that is kept for it goes on to the snapshot before, if that sees
//!                      it, too, and otherwise goes
//! ```
//!
//! Reads of older snapshots find a value under either version, and nothing is kept for a removed one any more, so the
//! order of the steps does not matter.

use super::{changed, objects};
use crate::keys::{self, Key};
use crate::plan::{Broken, Plan, Stop};
use crate::record::{get, stamp_of};
use crate::states::leftovers;
use crate::{Error, RECORDS_OF_COMMAND_MAX, Reply, Snapshot, VolumeId, read};

/// Removes a snapshot. Unless `force`, refused while files of it are open.
///
/// # Errors
/// `NoEntry`, `HoldsClones`, `FilesOpen`.
pub(crate) fn remove(plan: &mut Plan<'_>, volume: VolumeId, name: &[u8], force: bool) -> Result<Reply, Stop> {
    let by_name = keys::snapshot_name(volume, name);
    let id: VolumeId = get(plan.view(), &by_name)?.ok_or(Error::NoEntry)?;
    let snapshot: Snapshot =
        get(plan.view(), &keys::snapshot(id))?.ok_or(Broken("a name is of no snapshot"))?;
    if !read::clones(plan.view(), id)?.is_empty() {
        return Err(Error::HoldsClones.into());
    }
    if !force && leftovers::has_open_files(plan, id)? {
        return Err(Error::FilesOpen.into());
    }
    if read::history(plan.view(), volume)?.rolls_back {
        return Err(Error::Delay.into());
    }
    let version = snapshot.version;
    plan.delete(&by_name);
    plan.delete(&keys::snapshot(id));
    plan.delete(&keys::snapshot_of(volume, version));
    let mut history = read::history(plan.view(), volume)?;
    history.count = history.count.checked_sub(1).ok_or(Broken("a snapshot goes that was not counted"))?;
    if history.newest == version {
        history.newest = read::version_before(plan.view(), volume, version)?;
    }
    changed(plan, volume, &mut history)?;
    let left = keys::left_snapshot(volume, version);
    plan.put(&left, &id)?;
    match remove_some(plan, volume, version, id)? {
        true => plan.delete(&left),
        false => plan.leave_work(),
    }
    Ok(Reply::Done)
}

/// Removes what is left of a snapshot, up to the bound of the command. Returns true if that is all.
pub(crate) fn remove_some(
    plan: &mut Plan<'_>,
    volume: VolumeId,
    version: u32,
    id: VolumeId,
) -> Result<bool, Stop> {
    if !leftovers::end_states(plan, |tag| keys::of_volume(tag, id))? {
        return Ok(false);
    }
    let mut history = read::history(plan.view(), volume)?;
    let (before, had) = (read::version_before(plan.view(), volume, version)?, history.kept);
    let prefix = keys::kept_for(volume, version, &[]);
    let some = read::some_keys(plan.view(), &prefix, &keys::after(&prefix), RECORDS_OF_COMMAND_MAX)?;
    let mut is_last = some.len() < RECORDS_OF_COMMAND_MAX;
    for index in some {
        if plan.is_full() {
            is_last = false;
            break;
        }
        let (key, from): (Key, Key) = {
            let key = keys::kept_key(&index);
            (key.to_vec(), keys::kept_value(key, version))
        };
        let value = plan.view().get(&from)?.ok_or(Broken("a value is not kept for its snapshot"))?;
        plan.delete(&index);
        plan.delete(&from);
        if stamp_of(&value) < before {
            plan.put_value(&keys::kept_value(&key, before), value);
            plan.mark(&keys::kept_for(volume, before, &key));
        } else {
            history.kept = history.kept.checked_sub(1).ok_or(Broken("a value goes that was not counted"))?;
            if key.first() == Some(&keys::OBJECTS) {
                objects::drop_kept(plan, &mut history, &key, &value)?;
            }
        }
    }
    if history.kept == 0 && read::volume(plan.view(), volume)?.is_none() {
        plan.delete(&keys::history(volume)); // its volume was removed meanwhile
    } else if history.kept != had {
        plan.put(&keys::history(volume), &history)?;
    }
    Ok(is_last)
}
