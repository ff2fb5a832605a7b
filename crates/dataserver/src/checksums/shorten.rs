//! Zeros and shorter ends of objects, with their sums. All of it is done with the object's lock `writing` held.

use std::ops::Range;

use super::block_sum::{BLOCK, BLOCK_BYTES, BlockSum};
use super::change::Changing;
use crate::object::{ObjectName, OpenObject};
use crate::objects::{ObjectError, Objects};

impl Objects {
    /// Makes a range zeros, and the sums of its blocks with it. The length stays. The caller has `writing`.
    pub(crate) fn zero_summed(
        &self,
        name: &ObjectName,
        open: &OpenObject,
        changing: &mut Changing,
        range: Range<u64>,
        zero: impl FnOnce(u64, u64) -> Result<(), ObjectError>,
    ) -> Result<(), ObjectError> {
        let len = open.file.metadata().map_err(|e| self.trouble("look at", name, e))?.len();
        let (offset, end) = (range.start, range.end.min(len));
        if offset >= end {
            return Ok(());
        }
        self.note_change(name, changing, offset..end, false)?;
        let Some(sums) = open.sums.get() else { return zero(offset, end - offset) };
        let fail = |e| self.trouble("write the sums of", name, e);
        // Of a last block that the object does not fill, all that it has.
        let covers_end = |block: u64| end == len && block == end / BLOCK;
        let mut edges: Vec<(u64, BlockSum)> = Vec::with_capacity(2);
        let (first, last) = (offset / BLOCK, (end - 1) / BLOCK);
        for block in [first, last].into_iter().take(if first == last { 1 } else { 2 }) {
            let from = (offset.max(block * BLOCK) - block * BLOCK) as usize;
            let to = (end.min((block + 1) * BLOCK) - block * BLOCK) as usize;
            if from > 0 || to < BLOCK_BYTES && !covers_end(block) {
                edges.push((block, self.sum_without(name, open, block, from, to)?));
            }
        }
        let put = || {
            sums.clear(&*self.disk, first, last + 1 - first)?;
            edges.iter().try_for_each(|(block, sum)| sums.put(&*self.disk, *block, &[*sum]))
        };
        let outcome = match sums.has_damaged(&*self.disk, first, last + 1 - first).map_err(fail)? {
            true => zero(offset, end - offset).and_then(|()| self.put_after_data(name, open, put)),
            false => put().map_err(fail).and_then(|()| zero(offset, end - offset)),
        };
        match &outcome {
            Ok(()) => self.checksums.findings.mended(name, first..last + 1),
            Err(_) => self.mend_sums(name, open, first..last + 1),
        }
        outcome
    }

    /// The sum of a block after its bytes `from..to` became zeros.
    fn sum_without(
        &self,
        name: &ObjectName,
        open: &OpenObject,
        block: u64,
        from: usize,
        to: usize,
    ) -> Result<BlockSum, ObjectError> {
        let mut buffer = self.pool.take(BLOCK_BYTES);
        let read = self.disk.read_at(&open.file, &mut buffer, block * BLOCK);
        let read = read.map_err(|e| self.trouble("read", name, e))?;
        self.verify_block(name, open, block, &buffer[..read])?;
        buffer[from.min(read)..to.min(read)].fill(0);
        Ok(BlockSum::of(&buffer[..read]))
    }

    /// Shortens the object's file to `len`, and its sums with it. The caller has `writing`, and knows that
    /// the file is longer.
    pub(crate) fn shorten_summed(
        &self,
        name: &ObjectName,
        open: &OpenObject,
        changing: &mut Changing,
        len: u64,
    ) -> Result<(), ObjectError> {
        let fail = |e| self.trouble("truncate", name, e);
        let Some(sums) = open.sums.get() else {
            self.note_change(name, changing, len..len, true)?;
            return self.disk.set_len(&open.file, len).map_err(fail);
        };
        let (block, keep) = (len / BLOCK, (len % BLOCK) as usize);
        let mut edge = None;
        if keep > 0 {
            let mut buffer = self.pool.take(BLOCK_BYTES);
            let read = self.disk.read_at(&open.file, &mut buffer, block * BLOCK).map_err(fail)?;
            // A truncation is not refused, for it would be asked for again and again.
            edge = Some(match self.verify_block(name, open, block, &buffer[..read]) {
                Err(ObjectError::Damaged) => BlockSum::Damaged,
                other => other.map(|()| BlockSum::of(&buffer[..read.min(keep)]))?,
            });
        }
        let blocks = len.div_ceil(BLOCK);
        let put = || {
            sums.shorten(&*self.disk, blocks)?;
            edge.map_or(Ok(()), |edge| sums.put(&*self.disk, block, &[edge]))
        };
        let set_len = || self.disk.set_len(&open.file, len).map_err(fail);
        if edge == Some(BlockSum::Damaged) {
            // Before its region is doubtful, and durably: no crash makes the block a sound one.
            let is_put = sums.put(&*self.disk, block, &[BlockSum::Damaged]);
            is_put.and_then(|()| self.disk.sync_sums(&sums.0)).map_err(fail)?;
        }
        self.note_change(name, changing, len..len, true)?;
        let outcome = match sums.has_damaged(&*self.disk, blocks, u64::MAX).map_err(fail)? {
            // Else one that is cut off could be damaged after a crash, when the object has grown again.
            true => set_len().and_then(|()| self.put_after_data(name, open, put)),
            false => put().map_err(fail).and_then(|()| set_len()),
        };
        match &outcome {
            Ok(()) => self.checksums.findings.mended(name, blocks..u64::MAX),
            Err(_) => self.doubt(name, open, len..u64::MAX),
        }
        outcome
    }
}
