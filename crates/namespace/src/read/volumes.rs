//! Reads of volumes.

use store::{StoreError, View};

use super::{collect_some, counters, inode, scan_records};
use crate::record::get;
use crate::volume::{LeftVolume, VolumeCounters};
use crate::{InodeId, Volume, VolumeId, keys};

/// A volume beside the first; none: there is no such volume, or it was removed.
///
/// # Errors
/// [`StoreError`] when the store fails, as all reads here.
pub fn volume(view: &dyn View, id: VolumeId) -> Result<Option<Volume>, StoreError> {
    get(view, &keys::volume(id))
}

/// True if the volume of an inode was not removed.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn volume_lives(view: &dyn View, inode: InodeId) -> Result<bool, StoreError> {
    match inode.volume() {
        VolumeId::FIRST => Ok(true),
        id => Ok(view.get(&keys::volume(id))?.is_some()),
    }
}

/// All volumes, by id, the first included.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn volumes(view: &dyn View) -> Result<Vec<Volume>, StoreError> {
    let counters = counters(view)?;
    let mut volumes = vec![Volume {
        id: VolumeId::FIRST,
        next_inode: counters.next_inode,
        inodes: counters.inodes,
        volumes: 0,
        created: inode(view, InodeId::ROOT)?.map_or_else(Default::default, |root| root.created),
    }];
    let (from, to) = (keys::volume(VolumeId::FIRST), keys::after(&[keys::VOLUMES]));
    scan_records(view, &from, &to, |_, volume: Volume| {
        volumes.push(volume);
        std::ops::ControlFlow::Continue(())
    })?;
    let removed: u64 = removed_volumes(view)?.iter().map(|(_, inodes)| inodes).sum();
    // The first one has all that the others have not.
    let (inodes, within) = volumes
        .iter()
        .skip(1)
        .fold((removed, 0), |(inodes, within), volume| (inodes + volume.inodes, within + volume.volumes));
    let all: VolumeCounters = get(view, &keys::volume_counters())?.unwrap_or_default();
    volumes[0].inodes = counters.inodes.saturating_sub(inodes);
    volumes[0].volumes = all.count.saturating_sub(within);
    Ok(volumes)
}

/// Volumes that were removed, and whose removal is not done: how many of their inodes are still there.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn removed_volumes(view: &dyn View) -> Result<Vec<(VolumeId, u64)>, StoreError> {
    let (from, to) = (keys::left_volume(VolumeId::FIRST), keys::after(&keys::of(keys::LEFTOVERS, &[5])));
    let all = collect_some::<LeftVolume>(view, &from, &to, usize::MAX)?;
    Ok(all.into_iter().map(|(key, left)| (VolumeId(keys::number(&key, 9) as u32), left.inodes)).collect())
}

/// Progress of the removal of a volume.
pub(crate) fn left_volume(view: &dyn View, id: VolumeId) -> Result<Option<LeftVolume>, StoreError> {
    get(view, &keys::left_volume(id))
}
