//! Blocks of an object for the other members of its chain: their sums, to be compared, and new bytes for one
//! that is damaged.

use super::block_sum::{BLOCK, BLOCK_BYTES, BlockSum, Unreadable};
use crate::epoch::ObjectRef;
use crate::object::{ObjectName, OpenObject};
use crate::objects::{ObjectError, Objects};

/// A block, as its data server knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockState {
    /// CRC-32C of all 65,536 bytes of the block, as if the object went on with zeros after its end. It is
    /// that of the data that were written: whether the disk still has them shows at a read.
    Summed(u32),
    /// The block may have been in the middle of a write when a process or machine ended: the CRC-32C of its
    /// bytes as they are now.
    Doubtful(u32),
    /// It is known to be damaged.
    Damaged,
}

/// CRC-32C of a whole block whose sum this is.
fn whole(sum: BlockSum) -> Option<u32> {
    match sum {
        BlockSum::Damaged => None,
        sum => match sum.appended(BLOCK_BYTES, std::iter::empty()) {
            BlockSum::Crc { crc, .. } => Some(crc),
            BlockSum::Zeros | BlockSum::Damaged => None,
        },
    }
}

impl Objects {
    /// The states of at most `count` blocks from block `first` on, up to the end of the object: to be
    /// compared with those of another member of its chain. They are of one moment only while no write of the
    /// object is under way.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub fn block_states(
        &self,
        object: ObjectRef,
        first: u64,
        count: u64,
    ) -> Result<Vec<BlockState>, ObjectError> {
        self.check()?;
        let name = object.name;
        let open = self.find(name)?;
        let _entered = self.enter(&open, object)?;
        let len = open.file.metadata().map_err(|e| self.trouble("look at", &name, e))?;
        let blocks = len.len().div_ceil(BLOCK);
        let mut states = Vec::new();
        let blocks = first..blocks.min(first.saturating_add(count));
        self.own(&name, &open, blocks.start.saturating_mul(BLOCK)..blocks.end.saturating_mul(BLOCK))?;
        for block in blocks {
            let _alone = open.writing.lock();
            states.push(self.state_of(&name, &open, block)?);
        }
        Ok(states)
    }

    /// The state of one block. The caller has `writing`.
    fn state_of(&self, name: &ObjectName, open: &OpenObject, block: u64) -> Result<BlockState, ObjectError> {
        let fail = |e| self.trouble("read the sums of", name, e);
        let sum = match open.sums.get() {
            Some(sums) => sums.get(&*self.disk, block).map_err(fail)?,
            None => Ok(BlockSum::Zeros),
        };
        match sum {
            Ok(sum) if !self.is_doubtful(name, open, block) => {
                let is_damaged = self.checksums.findings.is_damaged(name, block);
                Ok(whole(sum).filter(|_| !is_damaged).map_or(BlockState::Damaged, BlockState::Summed))
            }
            Ok(_) | Err(Unreadable) => {
                let mut buffer = self.pool.take(BLOCK_BYTES);
                let read = self.disk.read_at(&open.file, &mut buffer, block * BLOCK).map_err(fail)?;
                buffer[read..].fill(0);
                Ok(BlockState::Doubtful(crc32c::crc32c(&buffer)))
            }
        }
    }

    /// Verifies one block as it is on the disk or in the kernel's cache.
    ///
    /// # Errors
    /// [`ObjectError::Damaged`]; [`ObjectError`].
    pub fn check_block(&self, object: ObjectRef, block: u64) -> Result<(), ObjectError> {
        self.check()?;
        let name = object.name;
        let offset = block.checked_mul(BLOCK).ok_or(ObjectError::TooLarge)?;
        crate::objects::end_of(offset, BLOCK)?;
        let open = self.find(name)?;
        let _entered = self.enter(&open, object)?;
        self.own(&name, &open, offset..offset + BLOCK)?;
        let mut buffer = self.pool.take(BLOCK_BYTES);
        let _alone = open.writing.lock();
        let read = self.disk.read_at(&open.file, &mut buffer, offset);
        let read = read.map_err(|e| self.trouble("read", &name, e))?;
        self.verify_block(&name, &open, block, &buffer[..read])
    }

    /// Puts the bytes of another member in place of a block, damaged or not. After them the block is zeros,
    /// as far as the object has it. `state`: the block is left alone if its state is another one by now, for
    /// it was written meanwhile. Returns whether it was rewritten. Durable.
    ///
    /// # Errors
    /// [`ObjectError`]: `TooLarge` for more bytes than a block has.
    pub fn rewrite_block(
        &self,
        object: ObjectRef,
        block: u64,
        bytes: &[u8],
        state: BlockState,
    ) -> Result<bool, ObjectError> {
        self.check()?;
        if bytes.len() > BLOCK_BYTES || block.checked_mul(BLOCK).is_none() {
            return Err(ObjectError::TooLarge);
        }
        let name = object.name;
        let open = self.find_block(&name, block)?;
        let _entered = self.enter(&open, object)?;
        let _alone = open.writing.lock();
        if self.state_of(&name, &open, block)? != state {
            return Ok(false);
        }
        self.put_durably(&name, &open, block, bytes).map(|()| true)
    }
}
