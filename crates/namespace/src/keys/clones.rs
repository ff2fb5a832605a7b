//! Keys of clones, and of what they do not show of their origins.

use super::{CLONES, HIDDEN, Key, LEFTOVERS, ORIGINS, TO_COPY, inode_of, of, of_volume, with_inode};
use crate::{InodeId, VolumeId};

/// Key of the next id.
pub(crate) fn clone_counters() -> Key {
    vec![ORIGINS]
}

pub(crate) fn origin(volume: VolumeId) -> Key {
    of(ORIGINS, &[volume.0.into()])
}

pub(crate) fn clone_of(snapshot: VolumeId, clone: VolumeId) -> Key {
    of(CLONES, &[snapshot.0.into(), clone.0.into()])
}

pub(crate) fn clones_of(snapshot: VolumeId) -> Key {
    of(CLONES, &[snapshot.0.into()])
}

/// Key of a file whose objects are to be copied, so that its volume is no clone any more.
pub(crate) fn to_copy(inode: InodeId) -> Key {
    of(TO_COPY, &[inode.0])
}

/// Mark of what a clone has removed of what its origin shows.
pub(crate) fn hidden(key: &[u8]) -> Key {
    [&[HIDDEN], key].concat()
}

/// Range of these marks for one table of a volume.
pub(crate) fn hidden_of_volume(tag: u8, id: VolumeId) -> (Key, Key) {
    let (from, to) = of_volume(tag, id);
    (hidden(&from), hidden(&to))
}

/// Key of a clone that is promoted.
pub(crate) fn left_promotion(volume: VolumeId) -> Key {
    of(LEFTOVERS, &[9, volume.0.into()])
}

/// Key of a clone that inherits nothing any more, whose marks are to be removed.
pub(crate) fn left_marks(volume: VolumeId) -> Key {
    of(LEFTOVERS, &[10, volume.0.into()])
}

/// The key, or the end of a range, with its inode in another volume; the end of that volume for one that is in neither.
pub(crate) fn moved(key: &[u8], from: VolumeId, to: VolumeId) -> Key {
    let tag = key.first().copied().unwrap_or_default();
    // The end of the keys of an inode whose number ends in 0xff is shorter than a key: zeros are as good as nothing there.
    let mut key = key.to_vec();
    key.resize(key.len().max(of(tag, &[0]).len()), 0);
    match inode_of(&key) {
        Some(inode) if inode.volume() == from => with_inode(&key, inode.in_volume(to)),
        Some(_) | None => of_volume(tag, to).1,
    }
}

/// True if a range is within one table of one volume.
pub(crate) fn is_within(volume: VolumeId, from: &[u8], to: &[u8]) -> bool {
    inode_of(from).is_some_and(|inode| inode.volume() == volume)
        && from.first().is_some_and(|tag| to <= of_volume(*tag, volume).1.as_slice())
}
