//! Reading whole blocks, and verifying them.

use super::block_sum::{BLOCK, BLOCK_BYTES, BlockSum, Unreadable};
use super::span::Span;
use crate::object::{ObjectName, OpenObject};
use crate::objects::{ObjectError, Objects, ReadOutcome};

/// A block that does not fit its sum.
struct Unfit {
    block: u64,
    sum: Result<BlockSum, Unreadable>,
}

/// Bytes of whole blocks as they were read.
struct Blocks<'a> {
    first: u64,
    count: u64,
    /// Fewer than `count` blocks where the object ends.
    bytes: &'a [u8],
}

impl<'a> Blocks<'a> {
    fn get(&self, block: u64) -> &'a [u8] {
        let from = usize::try_from((block - self.first) * BLOCK).unwrap_or(usize::MAX).min(self.bytes.len());
        &self.bytes[from..self.bytes.len().min(from + BLOCK_BYTES)]
    }
}

impl Objects {
    /// Reads `count` bytes at `offset`, whose end is an offset, too. The blocks that they are in are read
    /// whole, and verified if `verifies`.
    pub(crate) fn read_blocks(
        &self,
        name: &ObjectName,
        open: &OpenObject,
        offset: u64,
        count: usize,
        verifies: bool,
    ) -> Result<ReadOutcome, ObjectError> {
        let fail = |e| self.trouble("read or verify", name, e);
        let span = Span::of(open, offset, count, verifies);
        let mut buffer = self.pool.take(span.bytes());
        let read = |file: &_, buffer: &mut [u8], at| self.disk.read_at(file, buffer, at).map(Some);
        let mut found = span.read(open, &mut buffer, read).map_err(fail)?.unwrap_or_default();
        if !found.fits {
            // A write may have been under way: once more without one.
            let _alone = open.writing.lock();
            found.bytes = self.disk.read_at(&open.file, &mut buffer, span.start).map_err(fail)?;
            let blocks = Blocks { first: span.first(), count: span.blocks, bytes: &buffer[..found.bytes] };
            self.judge(name, open, blocks)?;
        }
        span.outcome(open, buffer, found.bytes).map_err(fail)
    }

    fn first_unfit(
        &self,
        name: &ObjectName,
        open: &OpenObject,
        found: &Blocks<'_>,
    ) -> Result<Option<Unfit>, ObjectError> {
        let Some(sums) = open.sums.get() else { return Ok(None) };
        let mut unfit = None;
        let read = sums.each(&*self.disk, found.first, found.count, |block, sum| {
            let fits = sum.is_ok_and(|sum| sum.matches(found.get(block)));
            if !fits {
                unfit = Some(Unfit { block, sum });
            }
            fits
        });
        read.map_err(|e| self.trouble("read the sums of", name, e))?;
        Ok(unfit)
    }

    /// Judges blocks that were read while no write was under way. The caller has `writing`.
    fn judge(&self, name: &ObjectName, open: &OpenObject, mut found: Blocks<'_>) -> Result<(), ObjectError> {
        while let Some(Unfit { block, sum }) = self.first_unfit(name, open, &found)? {
            // One that is known to be damaged is so after a crash, too: its sum is replaced durably (`put_after_data`).
            if sum == Ok(BlockSum::Damaged) || !self.is_doubtful(name, open, block) {
                match sum {
                    Ok(_) => return Err(self.damaged(name, open, block)),
                    // Another member knows the bytes; here they could not be verified.
                    Err(Unreadable) if open.gate.mark().chain != 0 => {
                        return Err(self.damaged(name, open, block));
                    }
                    Err(Unreadable) => self.replace_sum(name, open, block, found.get(block))?,
                }
            }
            let done = block + 1 - found.first;
            let bytes = usize::try_from(done * BLOCK).unwrap_or(usize::MAX).min(found.bytes.len());
            found = Blocks { first: block + 1, count: found.count - done, bytes: &found.bytes[bytes..] };
        }
        Ok(())
    }

    /// True if the sum of the block need not fit.
    pub(crate) fn is_doubtful(&self, name: &ObjectName, open: &OpenObject, block: u64) -> bool {
        let offset = block.saturating_mul(BLOCK);
        open.is_doubtful() && self.checksums.doubts(name, offset, offset.saturating_add(BLOCK))
    }

    /// Verifies one block, whose bytes are in `bytes`. The caller has `writing`.
    pub(crate) fn verify_block(
        &self,
        name: &ObjectName,
        open: &OpenObject,
        block: u64,
        bytes: &[u8],
    ) -> Result<(), ObjectError> {
        self.judge(name, open, Blocks { first: block, count: 1, bytes })
    }

    /// Notes and logs a damaged block; the answer to its reader.
    pub(crate) fn damaged(&self, name: &ObjectName, open: &OpenObject, block: u64) -> ObjectError {
        let has_copies = open.gate.mark().chain != 0;
        let is_news = self.checksums.findings.damaged(name, block);
        if is_news && has_copies {
            tracing::warn!(
                target = %self.root.path().display(), object = %name, block, offset = block.saturating_mul(BLOCK),
                "a block of an object is unreadable or does not fit its checksum: it is replaced by that of another member of its chain"
            );
        } else if is_news {
            tracing::error!(
                target = %self.root.path().display(), object = %name, block, offset = block.saturating_mul(BLOCK),
                "a block of an object does not fit its checksum: reads of it fail with EIO. Check the disk (dmesg, smartctl); \
                 restore the file from a backup, or write this part of it again"
            );
        }
        ObjectError::Damaged
    }

    /// Computes the sum of a block anew, since the one in the sum file is none. The caller has `writing`.
    pub(crate) fn replace_sum(
        &self,
        name: &ObjectName,
        open: &OpenObject,
        block: u64,
        bytes: &[u8],
    ) -> Result<(), ObjectError> {
        let Some(sums) = open.sums.get() else { return Ok(()) };
        self.checksums.findings.sum_damaged();
        tracing::error!(
            target = %self.root.path().display(), object = %name, block,
            "a checksum in the sum file of an object is damaged: it is computed anew from the block, which cannot be verified. \
             Check the disk (dmesg, smartctl)"
        );
        let put = sums.put(&*self.disk, block, &[BlockSum::of(bytes)]);
        put.map_err(|e| self.trouble("write the sums of", name, e))
    }
}
