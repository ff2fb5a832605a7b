//! Reads of snapshots, of their volumes and of what is kept for them.

use std::ops::ControlFlow;

use store::{StoreError, View};

use super::{origin, scan_records};
use crate::record::{get, stamp_of};
use crate::snapshot::objects::{self, KeptObjects, Objects};
use crate::{FileLayout, History, Inode, InodeId, Snapshot, VolumeId, keys};

/// Snapshots of a volume, in numbers.
///
/// # Errors
/// [`StoreError`] when the store fails, as all reads here.
pub fn history(view: &dyn View, volume: VolumeId) -> Result<History, StoreError> {
    Ok(get(view, &keys::history(volume))?.unwrap_or_default())
}

/// True while a volume is rolled back: half of it is as it was.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn rolls_back(view: &dyn View, volume: VolumeId) -> Result<bool, StoreError> {
    Ok(history(view, volume)?.rolls_back)
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

/// Objects of a file, or of a file as a snapshot shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectsOf {
    /// Number in their names.
    pub id: InodeId,
    /// Epochs of calls and of layouts.
    pub epochs: (u32, u32),
    /// False if they are those of a snapshot.
    pub is_own: bool,
}

/// Objects of a file; none: they are about to be truncated. An inode of a snapshot needs a view with snapshots
/// ([`crate::Snapshots`]).
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn objects(view: &dyn View, inode: &Inode) -> Result<Option<ObjectsOf>, StoreError> {
    if inode.id.volume().is_snapshot() {
        return shown_objects(view, inode.id);
    }
    match own_objects(view, inode.id)?.number(inode) {
        Some(id) => Ok(Some(ObjectsOf { id, epochs: (inode.epoch, inode.layout_epoch), is_own: true })),
        None => inherited_objects(view, inode.id),
    }
}

/// Objects of a clone's file that has none of its own.
fn inherited_objects(view: &dyn View, inode: InodeId) -> Result<Option<ObjectsOf>, StoreError> {
    match origin(view, inode.volume())? {
        Some(origin) => shown_objects(view, inode.in_volume(origin.snapshot)),
        None => Ok(None),
    }
}

/// Objects of a file as a snapshot shows it.
fn shown_objects(view: &dyn View, shown: InodeId) -> Result<Option<ObjectsOf>, StoreError> {
    let Some(Snapshot { volume, version, .. }) = snapshot(view, shown.volume())? else { return Ok(None) };
    let live = shown.in_volume(volume);
    let (key, mut kept) = (keys::objects(live), None);
    view.scan(&keys::kept_value(&key, version), &keys::kept_value(&key, u32::MAX), &mut |_, value| {
        kept = Some(value.to_vec());
        ControlFlow::Break(())
    })?;
    // A clone has copied what it inherited after the snapshot.
    let is_later = |stamp: u32| volume.is_clone() && stamp >= version;
    if let Some(kept) = kept {
        if is_later(stamp_of(&kept)) {
            return inherited_objects(view, live);
        }
        let KeptObjects { id, epochs, .. } = objects::kept(&key, &kept)?;
        return Ok(Some(ObjectsOf { id, epochs, is_own: false }));
    }
    let own = own_objects(view, live)?;
    if own.are_inherited() || is_later(own.version) {
        return inherited_objects(view, live);
    }
    // Nothing was written to them since.
    let Some(file) = super::inode(view, live)? else { return Ok(None) };
    if super::pending_truncation(view, live)? {
        return Ok(None);
    }
    Ok(Some(ObjectsOf { id: own.id, epochs: (file.epoch, file.layout_epoch), is_own: false }))
}

/// True if a snapshot shows the objects of a file, also that of a clone's origin, or they are being copied: its data cannot change now.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn shares_objects(view: &dyn View, inode: &Inode) -> Result<bool, StoreError> {
    let (volume, is_striped) = (inode.id.volume(), inode.columns().is_some());
    let history = history(view, volume)?;
    let may = is_striped && (history.newest > 0 || volume.is_clone());
    Ok(may && own_objects(view, inode.id)?.are_shared(&history))
}

/// Number of the copies of a file's objects that are being made.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn copy_of_objects(view: &dyn View, inode: InodeId) -> Result<Option<InodeId>, StoreError> {
    Ok(own_objects(view, inode)?.copy.map(|copy| copy.id))
}

/// Layouts and epochs of a file whose objects have this number: one, or none if no file has such objects.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn owner(view: &dyn View, object: InodeId) -> Result<Option<Owner>, StoreError> {
    let file = get(view, &keys::object_owner(object))?.unwrap_or(object);
    if let Some(inode) = super::inode(view, file)? {
        let own = own_objects(view, file)?;
        if let Some(layout) = inode.layout()
            && (own.number(&inode) == Some(object) || own.copy.is_some_and(|copy| copy.id == object))
        {
            let (generation, epoch) = (inode.generation, inode.epoch);
            return Ok(Some(Owner { file, generation, layout, epoch, is_kept: false }));
        }
    }
    let key = keys::objects(file);
    let (mut found, mut outcome) = (None, Ok(()));
    view.scan(&keys::kept_value(&key, 0), &keys::kept_value(&key, u32::MAX), &mut |_, value| {
        match objects::kept(&key, value) {
            Ok(kept) if kept.id == object => found = Some(kept),
            Ok(_) => {}
            Err(error) => outcome = Err(error),
        }
        let goes_on = found.is_none() && outcome.is_ok();
        if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    outcome?;
    Ok(found.map(|KeptObjects { generation, layout, epochs: (epoch, _), .. }| Owner {
        file,
        generation,
        layout,
        epoch,
        is_kept: true,
    }))
}

/// The file that objects are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// Its inode, which may have been removed.
    pub file: InodeId,
    /// Its generation.
    pub generation: u32,
    /// Layout of the objects.
    pub layout: FileLayout,
    /// Their epoch.
    pub epoch: u32,
    /// True if they are only kept for snapshots.
    pub is_kept: bool,
}

/// Objects of a file; of one without a record, named as its inode or inherited.
pub(crate) fn own_objects(view: &dyn View, inode: InodeId) -> Result<Objects, StoreError> {
    if let Some(own) = get(view, &keys::objects(inode))? {
        return Ok(own);
    }
    let is_inherited =
        inode.volume().is_clone() && origin(view, inode.volume())?.is_some_and(|origin| origin.has(inode));
    let id = if is_inherited { objects::INHERITED } else { inode };
    Ok(Objects { id, version: 0, copy: None })
}
