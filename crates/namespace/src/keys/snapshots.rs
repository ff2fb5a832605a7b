//! Keys of snapshots, and of what is kept for them.

use super::{
    HISTORIES, INODES, KEPT, KEPT_FOR, Key, LEFTOVERS, NAMES, OBJECTS, SNAPSHOT_NAMES, SNAPSHOTS,
    SNAPSHOTS_OF, XATTRS, number, of, with_bytes,
};
use crate::{InodeId, VolumeId};

/// Name under which a volume's root has its snapshots.
pub(crate) const SNAPSHOTS_NAME: &[u8] = b".snapshot";

/// Tables that a snapshot shows: first and last tag.
pub(crate) const SHOWN: [u8; 2] = [INODES, XATTRS];

/// Key of the next id.
pub(crate) fn snapshot_counters() -> Key {
    vec![SNAPSHOTS]
}

pub(crate) fn snapshot(id: VolumeId) -> Key {
    of(SNAPSHOTS, &[id.0.into()])
}

pub(crate) fn history(volume: VolumeId) -> Key {
    of(HISTORIES, &[volume.0.into()])
}

pub(crate) fn snapshot_of(volume: VolumeId, version: u32) -> Key {
    of(SNAPSHOTS_OF, &[volume.0.into(), version.into()])
}

/// Range of the snapshots of a volume from a version on.
pub(crate) fn snapshots_from(volume: VolumeId, version: u64) -> (Key, Key) {
    let all = of(SNAPSHOTS_OF, &[volume.0.into()]);
    (of(SNAPSHOTS_OF, &[volume.0.into(), version]), super::after(&all))
}

pub(crate) fn snapshot_name(volume: VolumeId, name: &[u8]) -> Key {
    with_bytes(SNAPSHOT_NAMES, &[volume.0.into()], name)
}

/// Key of a snapshot that was removed.
pub(crate) fn left_snapshot(volume: VolumeId, version: u32) -> Key {
    of(LEFTOVERS, &[7, volume.0.into(), version.into()])
}

/// Prefix of the keys of snapshots of a volume that were removed.
pub(crate) fn left_snapshots(volume: VolumeId) -> Key {
    of(LEFTOVERS, &[7, volume.0.into()])
}

/// Key of a volume that is rolled back.
pub(crate) fn left_rollback(volume: VolumeId) -> Key {
    of(LEFTOVERS, &[8, volume.0.into()])
}

/// Key of the value that `key` had when a snapshot was made.
pub(crate) fn kept_value(key: &[u8], version: u32) -> Key {
    [&[KEPT], key, &version.to_be_bytes()[..]].concat()
}

/// Key and version of a kept value; none for other keys.
pub(crate) fn kept(kept: &[u8]) -> Option<(&[u8], u32)> {
    let (key, version) = kept.strip_prefix(&[KEPT])?.split_last_chunk::<4>()?;
    Some((key, u32::from_be_bytes(*version)))
}

/// Key in the index of what is kept for a snapshot.
pub(crate) fn kept_for(volume: VolumeId, version: u32, key: &[u8]) -> Key {
    with_bytes(KEPT_FOR, &[volume.0.into(), version.into()], key)
}

/// Key of the value that an index key is of.
pub(crate) fn kept_key(index: &[u8]) -> &[u8] {
    index.get(17..).unwrap_or_default()
}

/// Inode of a key in the tables that begin with an inode of a volume; none for keys of other tables.
pub(crate) fn inode_of(key: &[u8]) -> Option<InodeId> {
    let tag = key.first()?;
    ((INODES..=OBJECTS).contains(tag) && key.len() >= 9).then(|| InodeId(number(key, 1)))
}

/// The key with another inode.
pub(crate) fn with_inode(key: &[u8], inode: InodeId) -> Key {
    let rest = key.get(9..).unwrap_or_default();
    with_bytes(key.first().copied().unwrap_or_default(), &[inode.0], rest)
}

/// True for the name of the snapshots in the root of a volume.
pub(crate) fn is_snapshots_name(key: &[u8], inode: InodeId) -> bool {
    key.first() == Some(&NAMES) && inode.is_root() && key.get(9..) == Some(SNAPSHOTS_NAME)
}
