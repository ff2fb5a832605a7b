//! The bytes that a read takes from an object: whole blocks, if they are verified.

use std::fs::File;
use std::io;

use bytes::Bytes;
use host::Buffer;

use super::block_sum::{BLOCK, BLOCK_BYTES};
use crate::object::OpenObject;
use crate::objects::ReadOutcome;

/// Bytes that are read at a time, and verified while the processor's cache has them; whole blocks.
const PIECE_BYTES: usize = 4 * BLOCK_BYTES;

/// Bytes that are read.
pub(crate) struct Span {
    /// First byte that is wanted, and the end of those.
    offset: u64,
    end: u64,
    /// First byte that is read, and the end of those.
    pub start: u64,
    stop: u64,
    /// Blocks that are verified; 0: none.
    pub blocks: u64,
}

/// Outcome of a read.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct FoundBytes {
    /// Number of bytes; fewer than there is room for at the end of the object.
    pub bytes: usize,
    /// True if all blocks that are verified fit their sums.
    pub fits: bool,
}

impl Span {
    /// For `count` bytes at `offset`, whose end is an offset, too.
    pub(crate) fn of(open: &OpenObject, offset: u64, count: usize, verifies: bool) -> Self {
        let end = offset + count as u64;
        if !verifies || count == 0 || open.sums.get().is_none() {
            return Self { offset, end, start: offset, stop: end, blocks: 0 };
        }
        let (start, stop) = (offset - offset % BLOCK, end.div_ceil(BLOCK) * BLOCK);
        Self { offset, end, start, stop, blocks: (stop - start) / BLOCK }
    }

    /// Bytes that are read.
    pub(crate) fn bytes(&self) -> usize {
        (self.stop - self.start) as usize
    }

    /// First block that is verified.
    pub(crate) fn first(&self) -> u64 {
        self.start / BLOCK
    }

    /// Reads into `buffer`, and verifies. `read` is [`Disk::read_cached`](crate::Disk::read_cached), or does as it does.
    /// None: it did not read all.
    pub(crate) fn read(
        &self,
        open: &OpenObject,
        buffer: &mut [u8],
        read: impl Fn(&File, &mut [u8], u64) -> io::Result<Option<usize>>,
    ) -> io::Result<Option<FoundBytes>> {
        let mut sums = Vec::with_capacity(self.blocks as usize);
        if let Some(file) = open.sums.get().filter(|_| self.blocks > 0) {
            let note = |_, sum| {
                sums.push(sum);
                true
            };
            if file.each_by(&read, self.first(), self.blocks, note)?.is_none() {
                return Ok(None);
            }
        }
        let mut sums = sums.into_iter();
        let (mut found, mut is_at_end) = (FoundBytes { bytes: 0, fits: true }, false);
        for piece in buffer.chunks_mut(PIECE_BYTES) {
            let bytes = match is_at_end {
                true => 0,
                false => match read(&open.file, piece, self.start + found.bytes as u64)? {
                    Some(bytes) => bytes,
                    None => return Ok(None),
                },
            };
            is_at_end = bytes < piece.len();
            if self.blocks > 0 {
                // Also those behind the end of the object, whose sums are those of zeros.
                let blocks = (0..piece.len()).step_by(BLOCK_BYTES);
                let mut blocks = blocks.map(|from| &piece[from.min(bytes)..(from + BLOCK_BYTES).min(bytes)]);
                let fits = |block: &[u8]| {
                    let sum = sums.next();
                    sum.is_some_and(|sum| sum.is_ok_and(|sum| sum.matches(block)))
                };
                found.fits = found.fits && blocks.all(fits);
            }
            found.bytes += bytes;
        }
        Ok(Some(found))
    }

    /// The outcome for the reader, of so many bytes that were read into `buffer`.
    pub(crate) fn outcome(
        &self,
        open: &OpenObject,
        mut buffer: Buffer,
        read: usize,
    ) -> io::Result<ReadOutcome> {
        let found_end = self.start + read as u64;
        let at_end =
            found_end <= self.end && (read < buffer.len() || open.file.metadata()?.len() <= self.end);
        let (from, to) = ((self.offset - self.start) as usize, (self.end - self.start) as usize);
        buffer.truncate(read.min(to));
        let data = buffer.freeze();
        Ok(ReadOutcome { data: if from < data.len() { data.slice(from..) } else { Bytes::new() }, at_end })
    }
}
