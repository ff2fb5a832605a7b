//! The trash of all targets of a process. Targets on one file system share its room, so what one of them has in its
//! trash is given up for a write to another one, too: otherwise one would be full while `df` shows free space.

use std::io;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::trash::Trash;

/// The trash of each target that was opened with it, by file system.
#[derive(Clone, Default)]
pub struct SharedTrash(Arc<Mutex<Vec<Part>>>);

struct Part {
    /// Device number of its file system.
    device: u64,
    trash: Weak<Trash>,
}

impl SharedTrash {
    /// Adds the trash of a target on the file system with this device number.
    pub(crate) fn add(&self, device: u64, trash: &Arc<Trash>) -> TrashOfTarget {
        let mut parts = self.0.lock();
        parts.retain(|part| part.trash.strong_count() > 0);
        parts.push(Part { device, trash: Arc::downgrade(trash) });
        TrashOfTarget { own: Arc::clone(trash), device, all: self.clone() }
    }
}

/// The trash of a target, and the way to that of other targets on its file system.
pub(crate) struct TrashOfTarget {
    own: Arc<Trash>,
    device: u64,
    all: SharedTrash,
}

impl TrashOfTarget {
    /// The target's own.
    pub(crate) fn own(&self) -> &Trash {
        &self.own
    }

    /// Bytes that [`Self::reclaim`] can free: in its own trash, and in the others on its file system.
    pub(crate) fn reclaimable_bytes(&self) -> u64 {
        self.others().iter().fold(self.own.bytes(), |sum, other| sum.saturating_add(other.bytes()))
    }

    /// Removes for good until `bytes` are freed or nothing is left: from its own trash first, the oldest first. Returns
    /// how many were freed.
    ///
    /// # Errors
    /// The kernel's, if none was.
    pub(crate) fn reclaim(&self, bytes: u64) -> io::Result<u64> {
        let (mut freed, mut trouble) = (0, None);
        for trash in std::iter::once(Arc::clone(&self.own)).chain(self.others()) {
            if freed >= bytes {
                break;
            }
            match trash.reclaim(bytes - freed) {
                Ok(more) => freed += more,
                Err(error) => trouble = trouble.or(Some(error)),
            }
        }
        match trouble {
            Some(error) if freed == 0 => Err(error),
            _ => Ok(freed),
        }
    }

    fn others(&self) -> Vec<Arc<Trash>> {
        let parts = self.all.0.lock();
        let on_this = parts.iter().filter(|part| part.device == self.device);
        on_this
            .filter_map(|part| part.trash.upgrade())
            .filter(|trash| !Arc::ptr_eq(trash, &self.own))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use host::SystemClock;

    use super::*;
    use crate::held_dir::HeldDir;

    const BYTES: usize = 1 << 20;

    /// The trash of a target with one object of a MiB in it.
    fn trash(dir: &Path, name: &str) -> Arc<Trash> {
        for part in ["objects", "trash"] {
            std::fs::create_dir_all(dir.join(name).join(part)).unwrap();
        }
        let held = HeldDir::open(&dir.join(name)).unwrap();
        let objects = held.child("objects").unwrap();
        std::fs::write(dir.join(name).join("objects/x"), vec![1; BYTES]).unwrap();
        let trash = Trash::open(held.child("trash").unwrap(), Arc::new(SystemClock::default())).unwrap();
        trash.set_time(Duration::from_secs(3600));
        trash.take(&objects, "x", "x").unwrap();
        Arc::new(trash)
    }

    #[test]
    fn a_target_takes_room_from_its_own_trash_and_then_from_others_on_its_file_system() {
        let dir = tempfile::tempdir().unwrap();
        let [one, other, elsewhere] = ["one", "other", "elsewhere"].map(|name| trash(dir.path(), name));
        let shared = SharedTrash::default();
        let of_one = shared.add(7, &one);
        let of_elsewhere = shared.add(8, &elsewhere);
        shared.add(7, &other);
        let each = one.bytes();
        assert!(each >= BYTES as u64);
        assert_eq!((of_one.reclaimable_bytes(), of_elsewhere.reclaimable_bytes()), (2 * each, each));

        assert_eq!(of_one.reclaim(1).unwrap(), each);
        assert_eq!((one.bytes(), other.bytes()), (0, each), "its own first");
        assert_eq!(of_one.reclaim(2 * each).unwrap(), each);
        assert_eq!((of_one.reclaim(1).unwrap(), other.bytes(), elsewhere.bytes()), (0, 0, each));
    }

    #[test]
    fn a_target_that_was_closed_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| trash(dir.path(), name));
        let shared = SharedTrash::default();
        let of_one = shared.add(7, &one);
        drop(shared.add(7, &other));
        assert_eq!(of_one.reclaimable_bytes(), 2 * one.bytes());
        drop(other);
        assert_eq!(of_one.reclaimable_bytes(), one.bytes());
    }
}
