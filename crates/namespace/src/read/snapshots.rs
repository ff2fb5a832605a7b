//! Reads of snapshots, of their volumes and of what is kept for them.

use std::ops::ControlFlow;

use store::{StoreError, View};

use super::scan_records;
use crate::record::get;
use crate::{History, Snapshot, VolumeId, keys};

/// Snapshots of a volume, in numbers.
///
/// # Errors
/// [`StoreError`] when the store fails, as all reads here.
pub fn history(view: &dyn View, volume: VolumeId) -> Result<History, StoreError> {
    Ok(get(view, &keys::history(volume))?.unwrap_or_default())
}

/// A snapshot; none: there is no such snapshot, or it was removed.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn snapshot(view: &dyn View, id: VolumeId) -> Result<Option<Snapshot>, StoreError> {
    get(view, &keys::snapshot(id))
}

/// Snapshots of a volume, in the order in which they were made.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn snapshots(view: &dyn View, volume: VolumeId) -> Result<Vec<Snapshot>, StoreError> {
    let (from, to) = keys::snapshots_from(volume, 0);
    let mut ids: Vec<VolumeId> = Vec::new();
    scan_records(view, &from, &to, |_, id| {
        ids.push(id);
        ControlFlow::Continue(())
    })?;
    let mut snapshots = Vec::with_capacity(ids.len());
    for id in ids {
        snapshots.extend(snapshot(view, id)?);
    }
    Ok(snapshots)
}

/// Snapshots whose removal is not done: volume and version of each.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn removed_snapshots(view: &dyn View) -> Result<Vec<(VolumeId, u32)>, StoreError> {
    let prefix = keys::of(keys::LEFTOVERS, &[7]);
    let mut removed = Vec::new();
    super::scan_keys(view, &prefix, |key| {
        removed.push((VolumeId(keys::number(key, 9) as u32), keys::number(key, 17) as u32));
        ControlFlow::Continue(())
    })?;
    Ok(removed)
}

/// Version of the last snapshot of a volume before `version`; 0: there is none.
pub(crate) fn version_before(view: &dyn View, volume: VolumeId, version: u32) -> Result<u32, StoreError> {
    let (from, _) = keys::snapshots_from(volume, 0);
    let to = keys::snapshot_of(volume, version);
    let mut before = 0;
    view.scan(&from, &to, &mut |key, _| {
        before = keys::number(key, 9) as u32;
        ControlFlow::Continue(())
    })?;
    Ok(before)
}
