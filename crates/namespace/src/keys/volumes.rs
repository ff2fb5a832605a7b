//! Keys of volumes, and ranges of keys that belong to one.

use super::{Key, LEFTOVERS, USAGES, VOLUMES, number, of, with_bytes};
use crate::{InodeId, Subject, VolumeId};

/// Key of a volume that was removed.
pub(crate) fn left_volume(id: VolumeId) -> Key {
    of(LEFTOVERS, &[5, id.0.into()])
}

/// Key of a volume that is not counted yet.
pub(crate) fn left_count(id: VolumeId) -> Key {
    of(LEFTOVERS, &[6, id.0.into()])
}

/// Key of the next id, and of the number of volumes.
pub(crate) fn volume_counters() -> Key {
    vec![VOLUMES]
}

pub(crate) fn volume(id: VolumeId) -> Key {
    of(VOLUMES, &[id.0.into()])
}

/// Key of the usage of a user or group; that of the volume itself is in its record.
pub(crate) fn usage(id: VolumeId, subject: Subject) -> Key {
    let (kind, of) = match subject {
        Subject::Volume => (0, 0),
        Subject::User(uid) => (1, uid),
        Subject::Group(gid) => (2, gid),
    };
    with_bytes(USAGES, &[id.root().0], &[&[kind][..], &of.to_be_bytes()].concat())
}

/// Whose usage is under this key.
pub(crate) fn subject(key: &[u8]) -> Option<(VolumeId, Subject)> {
    let (kind, id) = key.get(9..)?.split_first()?;
    let id = u32::from_be_bytes(id.try_into().ok()?);
    let subject = match kind {
        1 => Subject::User(id),
        2 => Subject::Group(id),
        _ => return None,
    };
    Some((InodeId(number(key, 1)).volume(), subject))
}

/// Range of the keys of a volume in a table whose keys begin with an inode.
pub(crate) fn of_volume(tag: u8, id: VolumeId) -> (Key, Key) {
    let [first, end] = id.numbers();
    (of(tag, &[first]), of(tag, &[end]))
}
