//! Reads of volumes.

use std::ops::ControlFlow;

use store::{StoreError, View};

use super::{collect_some, counters, history, inode, scan_records};
use crate::record::get;
use crate::volume::LeftVolume;
use crate::{Counted, Inode, InodeId, Subject, Time, Usage, Volume, VolumeId, keys};

/// A volume; none: there is no such volume, or it was removed.
///
/// # Errors
/// [`StoreError`] when the store fails, as all reads here.
pub fn volume(view: &dyn View, id: VolumeId) -> Result<Option<Volume>, StoreError> {
    let known = get(view, &keys::volume(id))?;
    if known.is_some() || id != VolumeId::FIRST {
        return Ok(known);
    }
    // The store is from before volumes had records: nothing has changed in it since.
    let (counters, root) = (counters(view)?, inode(view, InodeId::ROOT)?);
    let mut first = Volume::new(id, root.map_or_else(Default::default, |root| root.created));
    first.next_inode = counters.next_inode;
    first.usage.inodes = counters.inodes;
    first.counted = Counted::NOTHING;
    Ok(Some(first))
}

/// True if the volume of an inode, or its snapshot, was not removed.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn volume_lives(view: &dyn View, inode: InodeId) -> Result<bool, StoreError> {
    match inode.volume() {
        VolumeId::FIRST => Ok(true),
        id if id.is_snapshot() => Ok(view.get(&keys::snapshot(id))?.is_some()),
        id => Ok(view.get(&keys::volume(id))?.is_some()),
    }
}

/// All volumes, by id.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn volumes(view: &dyn View) -> Result<Vec<Volume>, StoreError> {
    let mut volumes: Vec<Volume> = volume(view, VolumeId::FIRST)?.into_iter().collect();
    let (from, to) = (keys::volume(VolumeId(1)), keys::after(&[keys::VOLUMES]));
    scan_records(view, &from, &to, |_, volume: Volume| {
        volumes.push(volume);
        ControlFlow::Continue(())
    })?;
    Ok(volumes)
}

/// Usage of a volume, or of a user or group in it; none: there is no such volume.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn usage(view: &dyn View, id: VolumeId, subject: Subject) -> Result<Option<Usage>, StoreError> {
    let Some(volume) = volume(view, id)? else { return Ok(None) };
    match subject {
        Subject::Volume => Ok(Some(volume.usage)),
        Subject::User(_) | Subject::Group(_) => of_owner(view, id, subject).map(Some),
    }
}

fn of_owner(view: &dyn View, id: VolumeId, subject: Subject) -> Result<Usage, StoreError> {
    Ok(get(view, &keys::usage(id, subject))?.unwrap_or_default())
}

/// Usages of the users and groups in a volume: those that have something, or a limit.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn usages(view: &dyn View, id: VolumeId) -> Result<Vec<(Subject, Usage)>, StoreError> {
    let (from, to) = keys::of_volume(keys::USAGES, id);
    let mut usages = Vec::new();
    scan_records(view, &from, &to, |key, usage: Usage| {
        usages.extend(keys::subject(key).map(|(_, subject)| (subject, usage)));
        ControlFlow::Continue(())
    })?;
    Ok(usages)
}

/// Bytes that an inode may still grow by at this time: what its volume, its user and its group have left.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn room_bytes(view: &dyn View, inode: &Inode, now: Time) -> Result<u64, StoreError> {
    Ok(rooms(view, inode, now)?.into_iter().map(|(_, room)| room).min().unwrap_or(u64::MAX))
}

/// Usage of a volume for its limit: with the objects that are kept for its snapshots.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn charged(view: &dyn View, id: VolumeId) -> Result<Usage, StoreError> {
    volume(view, id)?.map_or(Ok(Usage::default()), |volume| with_kept(view, &volume))
}

pub(crate) fn with_kept(view: &dyn View, volume: &Volume) -> Result<Usage, StoreError> {
    let kept = history(view, volume.id)?.bytes;
    Ok(Usage { bytes: volume.usage.bytes.saturating_add(kept), ..volume.usage })
}

/// Bytes that whose limits hold for an inode have left at this time; those without a limit are left out.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn rooms(view: &dyn View, inode: &Inode, now: Time) -> Result<Vec<(Subject, u64)>, StoreError> {
    let Some(volume) = volume(view, inode.id.volume())? else { return Ok(vec![]) };
    let mut rooms = vec![(Subject::Volume, with_kept(view, &volume)?.room_bytes(now))];
    if volume.limited > 0 {
        for subject in [Subject::User(inode.uid), Subject::Group(inode.gid)] {
            rooms.push((subject, of_owner(view, volume.id, subject)?.room_bytes(now)));
        }
    }
    rooms.retain(|(_, room)| *room < u64::MAX);
    Ok(rooms)
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
