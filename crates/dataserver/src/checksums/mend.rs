//! Mending: a block that is damaged or unreadable gets the bytes of another member of its chain.

use std::sync::Arc;

use bytes::Bytes;
use host::Buffer;

use super::block_sum::{BLOCK, BLOCK_BYTES, BlockSum, Unreadable};
use crate::epoch::ObjectRef;
use crate::object::{ObjectName, OpenObject};
use crate::objects::{ObjectError, Objects, end_of};

fn offset_of(block: u64) -> Result<u64, ObjectError> {
    let offset = block.checked_mul(BLOCK).ok_or(ObjectError::TooLarge)?;
    end_of(offset, BLOCK).map(|_| offset)
}

impl Objects {
    /// Opens an object whose own this block is, or is from now on.
    pub(super) fn find_block(&self, name: &ObjectName, block: u64) -> Result<Arc<OpenObject>, ObjectError> {
        let offset = offset_of(block)?;
        let open = self.find(*name)?;
        self.own(name, &open, offset..offset + BLOCK)?;
        Ok(open)
    }

    /// The bytes of a block, verified; fewer at the end of the object.
    pub(crate) fn sound_block(&self, name: ObjectName, block: u64) -> Result<Bytes, ObjectError> {
        self.check()?;
        let offset = offset_of(block)?;
        let open = self.find(name)?;
        // It is looked at where it is: also on a full disk.
        if let Some(attached) = open.attachment.get().filter(|attached| attached.is_of_base(offset)) {
            let read = self.read_attached(&name, &open, &attached, offset, BLOCK_BYTES, true);
            return read.map(|read| read.data);
        }
        let _alone = open.writing.lock();
        self.verified(&name, &open, block)
    }

    /// The caller has `writing`.
    fn verified(&self, name: &ObjectName, open: &OpenObject, block: u64) -> Result<Bytes, ObjectError> {
        let mut buffer = self.pool.take(BLOCK_BYTES);
        let read = match self.disk.read_at(&open.file, &mut buffer, offset_of(block)?) {
            Ok(read) => read,
            Err(error) => {
                // It is mended as a damaged one is.
                let error = self.trouble("read", name, error);
                return Err(if error == ObjectError::Io { self.damaged(name, open, block) } else { error });
            }
        };
        self.verify_block(name, open, block, &buffer[..read])?;
        buffer.truncate(read);
        Ok(buffer.freeze())
    }

    /// The bytes of a block as they are, whether they fit their sum or not; none of a block that is unreadable or cut off.
    pub(crate) fn raw_block(&self, name: ObjectName, block: u64) -> Result<Bytes, ObjectError> {
        self.check()?;
        let open = self.find_block(&name, block)?;
        let mut buffer = self.pool.take(BLOCK_BYTES);
        let _alone = open.writing.lock();
        let read = self.disk.read_at(&open.file, &mut buffer, offset_of(block)?).unwrap_or(0);
        buffer.truncate(read);
        Ok(buffer.freeze())
    }

    /// Those of these bytes that the block has by its own sum. None: they do not fit it, or it has none.
    pub(crate) fn fitting(
        &self,
        name: ObjectName,
        block: u64,
        bytes: Bytes,
    ) -> Result<Option<Bytes>, ObjectError> {
        let open = self.find_block(&name, block)?;
        let _alone = open.writing.lock();
        let Some(sums) = open.sums.get() else { return Ok(None) };
        if self.is_doubtful(&name, &open, block) {
            return Ok(None);
        }
        let sum = sums.get(&*self.disk, block).map_err(|e| self.trouble("read the sums of", &name, e))?;
        Ok(match sum {
            Ok(sum @ BlockSum::Crc { len, .. }) if sum.matches(&bytes) => Some(bytes.slice(..len as usize)),
            // Eight lost bytes of a sum file are the sum of zeros, too, and a block that was not refilled yet is zeros.
            _ => None,
        })
    }

    /// Those of these blocks that are damaged or unreadable.
    pub(crate) fn damaged_blocks(
        &self,
        name: ObjectName,
        blocks: impl Iterator<Item = u64>,
    ) -> Result<Vec<u64>, ObjectError> {
        let mut damaged = Vec::new();
        for block in blocks {
            match self.sound_block(name, block) {
                Ok(_) => {}
                Err(ObjectError::Damaged) => damaged.push(block),
                Err(error) => return Err(error),
            }
        }
        Ok(damaged)
    }

    /// Puts the bytes of another member in place of a block that is damaged or unreadable. A block that is
    /// sound by now stays as it is: it was written meanwhile. Returns whether the block was damaged. Durable.
    pub(crate) fn mend_block(&self, name: ObjectName, block: u64, bytes: &[u8]) -> Result<bool, ObjectError> {
        self.check()?;
        let open = self.find_block(&name, block)?;
        let fail = |e| self.trouble("mend a block of", &name, e);
        let alone = open.writing.lock();
        match self.verified(&name, &open, block) {
            Ok(_) => {
                self.checksums.findings.mended(&name, block..block + 1);
                return Ok(false);
            }
            Err(ObjectError::Damaged) => {}
            Err(error) => return Err(error),
        }
        let modified_ns = open.stat().map_err(fail)?.modified_ns;
        self.put_durably(&name, &open, block, bytes)?;
        // To clients nothing has changed.
        open.set_time(modified_ns).map_err(fail)?;
        drop(alone);
        self.checksums.findings.mended_from_member();
        tracing::warn!(
            target = %self.root.path().display(), object = %name, block,
            "a damaged block of an object was replaced by that of another member of its chain. Check the disk (dmesg, smartctl)"
        );
        Ok(true)
    }

    /// Writes a mended block: its bytes, durably, and then its sum. No change is noted: a crash in between leaves a block
    /// that does not fit its sum, as before, and is mended again, where one of a noted region would be summed as it is.
    pub(super) fn put_durably(
        &self,
        name: &ObjectName,
        open: &OpenObject,
        block: u64,
        bytes: &[u8],
    ) -> Result<(), ObjectError> {
        let fail = |e| self.trouble("rewrite a block of", name, e);
        let (offset, whole) = self.whole_block(name, open, block, bytes)?;
        let (sums, sum) = (self.sum_file(name, open)?, BlockSum::of(&whole));
        self.disk.write_all_at(&open.file, &whole, offset).map_err(fail)?;
        self.put_after_data(name, open, || match sums.get(&*self.disk, block)? == Ok(sum) {
            true => Ok(()),
            false => sums.put(&*self.disk, block, &[sum]),
        })?;
        self.checksums.findings.mended(name, block..block + 1);
        Ok(())
    }

    /// The offset of a block, and these bytes with zeros after them, as far as the object has it. An object that has
    /// lost its end gets it back.
    fn whole_block(
        &self,
        name: &ObjectName,
        open: &OpenObject,
        block: u64,
        bytes: &[u8],
    ) -> Result<(u64, Buffer), ObjectError> {
        if bytes.len() > BLOCK_BYTES {
            return Err(ObjectError::TooLarge);
        }
        let offset = offset_of(block)?;
        let len = open.file.metadata().map_err(|e| self.trouble("look at", name, e))?.len();
        let had = len.saturating_sub(offset).min(BLOCK) as usize;
        let mut whole = self.pool.take(bytes.len().max(had));
        whole[..bytes.len()].copy_from_slice(bytes);
        whole[bytes.len()..].fill(0);
        Ok((offset, whole))
    }

    /// Takes a block that is damaged at all members that are in: reads of it fail here, too. It gets these bytes, which may be
    /// right for the most part, unless there are none, or its own are sound: these may be the last good ones, for an operator.
    pub(crate) fn keep_damaged(
        &self,
        object: ObjectRef,
        block: u64,
        bytes: &[u8],
    ) -> Result<(), ObjectError> {
        self.check()?;
        let name = object.name;
        let open = self.find_block(&name, block)?;
        let _entered = self.enter(&open, object)?;
        self.put_damaged(&name, &open, block, bytes)
    }

    /// [`Objects::keep_damaged`] in an open object.
    pub(crate) fn put_damaged(
        &self,
        name: &ObjectName,
        open: &OpenObject,
        block: u64,
        bytes: &[u8],
    ) -> Result<(), ObjectError> {
        let offset = offset_of(block)?;
        let mut changing = open.writing.lock();
        let fail = |e| self.trouble("take a damaged block of", name, e);
        let len = open.file.metadata().map_err(fail)?.len();
        let had = len.saturating_sub(offset).min(BLOCK) as usize;
        if had == 0 {
            return Ok(()); // it was cut off
        }
        let (_, whole) = self.whole_block(name, open, block, &bytes[..bytes.len().min(had)])?;
        let sums = self.sum_file(name, open)?;
        let own = sums.get(&*self.disk, block).map_err(fail)?;
        let is_sound = || matches!(own, Ok(BlockSum::Crc { .. })) && self.verified(name, open, block).is_ok();
        let keeps_own = bytes.is_empty() || is_sound();
        // First, and durably: no crash makes the block a sound one.
        let is_put = sums.put(&*self.disk, block, &[BlockSum::Damaged]);
        is_put.and_then(|()| self.disk.sync_sums(&sums.0)).map_err(fail)?;
        if !keeps_own {
            let range = offset..offset + whole.len() as u64;
            self.note_change(name, &mut changing, range, false)?;
            self.disk.write_all_at(&open.file, &whole, offset).map_err(fail)?;
            open.touch();
        }
        drop(changing);
        self.damaged(name, open, block);
        Ok(())
    }

    /// Computes the sum of a block anew if the sum is the fault, since no other member has the block: as for
    /// an object without copies. Returns whether it was the fault.
    pub(crate) fn replace_unreadable_sum(&self, name: ObjectName, block: u64) -> Result<bool, ObjectError> {
        self.check()?;
        let open = self.find_block(&name, block)?;
        let _alone = open.writing.lock();
        let Some(sums) = open.sums.get() else { return Ok(false) };
        let fail = |e| self.trouble("read", &name, e);
        if sums.get(&*self.disk, block).map_err(fail)? != Err(Unreadable) {
            return Ok(false);
        }
        let mut buffer = self.pool.take(BLOCK_BYTES);
        let read = self.disk.read_at(&open.file, &mut buffer, offset_of(block)?).map_err(fail)?;
        self.replace_sum(&name, &open, block, &buffer[..read])?;
        self.checksums.findings.mended(&name, block..block + 1);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::checksums::sum_file::SUFFIX;
    use crate::epoch::{CallEpoch, Epoch};
    use crate::{Target, TargetOptions};

    /// A lost sector of a sum file says that its blocks are zeros, as those are that were not refilled yet.
    #[test]
    fn zeros_are_no_evidence_that_the_bytes_are_those_of_a_damaged_block() {
        let dir = tempfile::tempdir().unwrap();
        let target =
            Target::open_with(TargetOptions::default(), dir.path(), [1; 16], &host::SystemEntropy).unwrap();
        let (objects, name) =
            (target.objects(), ObjectName { inode: 5, column: 0, volume: 1, generation: 1 });
        let epoch = Epoch { incarnation: 7, chain: 9, call: CallEpoch::Server(0, 0) };
        let object = ObjectRef { name, epoch };
        objects.make_of_calls(&[object]).unwrap();
        let bytes = Bytes::from(vec![7; BLOCK_BYTES]);
        objects.write(object, 0, &bytes.clone().into()).unwrap();
        objects.settle_all(&crate::Settling::default());
        assert_eq!(objects.fitting(name, 0, bytes.clone()), Ok(Some(bytes)));
        let sums = dir.path().join("objects").join(name.path() + SUFFIX);
        let sums = std::fs::File::options().write(true).open(sums).unwrap();
        let len = sums.metadata().unwrap().len();
        sums.write_all_at(&[0; 8], len - 8).unwrap();
        assert_eq!(objects.sound_block(name, 0), Err(ObjectError::Damaged));
        assert_eq!(objects.fitting(name, 0, Bytes::from(vec![0; BLOCK_BYTES])), Ok(None));
    }
}
