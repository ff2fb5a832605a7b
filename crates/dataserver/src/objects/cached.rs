//! Reads of what the kernel's cache has: at once, where a thread for work that blocks would cost as much as the read.

use std::sync::atomic::Ordering;

use super::{ObjectError, Objects, ReadOutcome, end_of};
use crate::checksums::Span;
use crate::epoch::ObjectRef;

/// Pieces of work that may be under way beside a read that is tried at once. A kernel that does not have the bytes in its
/// cache begins to read them, which waits where a disk that hangs has many requests.
const WORKING_MAX: usize = 4;

impl Objects {
    /// True if a read may be tried at once: the disk is not slow, as far as the work that waits for it says.
    pub(crate) fn may_be_quick(&self) -> bool {
        self.working.load(Ordering::Relaxed) < WORKING_MAX
    }

    /// Does `work`, which may wait for the disk, and counts it meanwhile.
    pub(crate) fn counted<T>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, ObjectError>,
    ) -> Result<T, ObjectError> {
        self.working.fetch_add(1, Ordering::Relaxed);
        let done = work(self);
        self.working.fetch_sub(1, Ordering::Relaxed);
        done
    }

    /// [`Objects::read`] of bytes and sums that are in the kernel's cache. None: not all of them are, or they are to be
    /// looked at more closely; nothing is said of them then.
    pub(crate) fn read_cached(&self, object: ObjectRef, offset: u64, count: usize) -> Option<ReadOutcome> {
        self.check().ok()?;
        end_of(offset, count as u64).ok()?;
        let open = self.open.lock().get(&object.name)?;
        if open.attachment.get().is_some() {
            return None;
        }
        let _entered = open.gate.enter_now(object.epoch)?;
        let span = Span::of(&open, offset, count, self.checksums.verifies_reads());
        let mut buffer = self.pool.take(span.bytes());
        let read = |file: &_, buffer: &mut [u8], at| self.disk.read_cached(file, buffer, at);
        let found = span.read(&open, &mut buffer, read).ok()?.filter(|found| found.fits)?;
        let outcome = span.outcome(&open, buffer, found.bytes).ok()?;
        self.calls.fetch_add(1, Ordering::Relaxed);
        Some(outcome)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use bytes::Bytes;
    use host::SeededEntropy;

    use super::*;
    use crate::epoch::{CallEpoch, Epoch};
    use crate::object::ObjectName;
    use crate::{Target, Verify};

    fn object(epoch: u32) -> ObjectRef {
        let name = ObjectName { inode: 1, column: 0, volume: 1, generation: 1 };
        ObjectRef { name, epoch: Epoch { incarnation: 7, chain: 0, call: CallEpoch::Server(epoch, 0) } }
    }

    #[test]
    fn a_read_from_the_cache_gives_what_a_read_gives_or_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let target = Target::open_or_create(dir.path(), [1; 16], &SeededEntropy::new(1)).unwrap();
        let objects = target.objects();
        objects.make_of_calls(&[object(3)]).unwrap();
        let bytes: Vec<u8> = (0..700_001).map(|at| (at % 251) as u8).collect();
        objects.write(object(3), 0, &Bytes::from(bytes).into()).unwrap();
        // All of it was just written. Not every file system can tell.
        let can_tell = objects.read_cached(object(3), 0, 1).is_some();
        for verify in [Verify::Read, Verify::Scrub] {
            objects.set_verify(verify);
            for (offset, count) in [
                (0, 1),
                (0, 65_536),
                (1, 700_000),
                (65_535, 300_000),
                (699_990, 100),
                (700_001, 5),
                (1 << 40, 5),
            ] {
                let read = objects.read(object(3), offset, count).unwrap();
                let cached = objects.read_cached(object(3), offset, count);
                assert_eq!(cached, can_tell.then_some(read), "{verify:?} {offset} {count}");
            }
        }
        assert_eq!(objects.read_cached(object(2), 0, 1), None, "of an earlier epoch");
        assert_eq!(objects.read_cached(object(4), 0, 1), None, "the object's epoch is to be raised first");
        assert_eq!(objects.read_cached(object(3), u64::MAX, 5), None);
        // A damaged block is for the read, which looks at it again.
        objects.set_verify(Verify::Read);
        let open = objects.find(object(3).name).unwrap();
        open.file.write_all_at(&[9], 200_000).unwrap();
        assert_eq!(objects.read_cached(object(3), 0, 700_000), None);
        assert_eq!(objects.read(object(3), 0, 700_000), Err(ObjectError::Damaged));
        objects.fail();
        assert_eq!(objects.read_cached(object(3), 0, 1), None);
        let nested = |o: &Objects| o.counted(|o| o.counted(|o| o.counted(|o| Ok(o.may_be_quick()))));
        assert_eq!(nested(objects), Ok(true));
        assert_eq!(objects.counted(nested), Ok(false), "the disk is slow");
        assert!(objects.may_be_quick());
    }
}
