//! Values that are kept for snapshots: those of records that were changed since.
//!
//! At the end of a command, each changed record of a volume is stamped with the number of snapshots that the volume has
//! had. If the newest snapshot sees the record as it was, because its stamp is lower, that value is kept, once for each
//! record and snapshot:
//!
//! ```text
//! snapshot        1           2     3
//! k          a    │   b  c    │     │    d
//! stamp      0    │   1  1    │     │    3         kept: (k, 1) = a, (k, 3) = c
//!                 shows a     c     c
//! ```
//!
//! A kept value with stamp r under version v is what all snapshots above r, up to v, show. So a file that is made and
//! removed between two snapshots leaves nothing.

use std::collections::BTreeMap;

use super::History;
use crate::keys::{self, Key};
use crate::plan::{Plan, Stop};
use crate::record::{stamp_of, stamped};
use crate::{Error, VolumeId, read};

/// Keeps what the newest snapshots see of the records that a command changes, and stamps their new values.
///
/// # Errors
/// `Delay` for a volume that is rolled back, unless `rolls_back`: then the command is a part of that.
pub(crate) fn keep(plan: &mut Plan<'_>, rolls_back: bool) -> Result<(), Stop> {
    let mut histories: BTreeMap<VolumeId, History> = BTreeMap::new();
    for volume in plan.changed_volumes() {
        let history = read::history(plan.view(), volume)?;
        if history.rolls_back && !rolls_back {
            return Err(Error::Delay.into());
        }
        if history.last > 0 {
            histories.insert(volume, history);
        }
    }
    for (volume, mut history) in histories {
        let before = history.kept;
        for (key, change) in plan.changed(volume) {
            // Most were read by the command.
            let is_later = plan.stamp_read(&key).is_some_and(|stamp| stamp >= history.newest);
            if !is_later
                && let Some(value) = plan.base().get(&key)?.filter(|value| stamp_of(value) < history.newest)
            {
                // A rollback keeps more than once.
                if plan.view().get(&keys::kept_value(&key, history.newest))?.is_none() {
                    put(plan, volume, &mut history, &key, value);
                }
            }
            if let Some(value) = change {
                plan.put_value(&key, stamped(&key, &value, history.last));
            }
        }
        if history.kept != before {
            plan.put(&keys::history(volume), &history)?;
        }
    }
    Ok(())
}

/// Keeps a value for the newest snapshot of the volume.
pub(super) fn put(plan: &mut Plan<'_>, volume: VolumeId, history: &mut History, key: &[u8], value: Vec<u8>) {
    let kept: Key = keys::kept_value(key, history.newest);
    plan.put_value(&kept, value);
    plan.mark(&keys::kept_for(volume, history.newest, key));
    history.kept += 1;
}
