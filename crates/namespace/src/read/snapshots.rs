//! Reads of snapshots, of their volumes and of what is kept for them.

use std::ops::ControlFlow;

use store::{StoreError, View};

use super::scan_records;
use crate::record::get;
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
}

/// Objects of a file; none: they are about to be truncated. An inode of a snapshot needs a view with snapshots
/// ([`crate::Snapshots`]).
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn objects(view: &dyn View, inode: &Inode) -> Result<Option<ObjectsOf>, StoreError> {
    let volume = inode.id.volume();
    if !volume.is_snapshot() {
        let id = own_objects(view, inode.id)?.id;
        return Ok(Some(ObjectsOf { id, epochs: (inode.epoch, inode.layout_epoch) }));
    }
    let Some(Snapshot { volume, version, .. }) = snapshot(view, volume)? else { return Ok(None) };
    let live = inode.id.in_volume(volume);
    let (key, mut kept) = (keys::objects(live), None);
    view.scan(&keys::kept_value(&key, version), &keys::kept_value(&key, u32::MAX), &mut |_, value| {
        kept = Some(value.to_vec());
        ControlFlow::Break(())
    })?;
    if let Some(kept) = kept {
        let KeptObjects { id, epochs, .. } = objects::kept(&key, &kept)?;
        return Ok(Some(ObjectsOf { id, epochs }));
    }
    // Nothing was written to them since.
    let Some(file) = super::inode(view, live)? else { return Ok(None) };
    if super::pending_truncation(view, live)? {
        return Ok(None);
    }
    let id = own_objects(view, live)?.id;
    Ok(Some(ObjectsOf { id, epochs: (file.epoch, file.layout_epoch) }))
}

/// True if a snapshot shows the objects of a file, or they are being copied: its data cannot change now.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn shares_objects(view: &dyn View, inode: &Inode) -> Result<bool, StoreError> {
    let History { newest, .. } = history(view, inode.id.volume())?;
    Ok(newest > 0 && inode.columns().is_some() && own_objects(view, inode.id)?.version < newest)
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
            && (own.id == object || own.copy.is_some_and(|copy| copy.id == object))
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

pub(crate) fn own_objects(view: &dyn View, inode: InodeId) -> Result<Objects, StoreError> {
    Ok(objects::of_record(inode, get(view, &keys::objects(inode))?))
}
