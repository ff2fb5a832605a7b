//! The sum file of an object: beside it, under its name with `.sums` appended.
//!
//! ```text
//! │ "heorot sums 1\n" and zeros, 16 │ inode u64 │ column u32 │ volume u32 │ generation u32 │ zeros, 24 │
//! │ CRC-32C of all before, u32 │ sum of block 0, 8 │ sum of block 1, 8 │ …            little-endian
//! ```
//!
//! A sum of 8 bytes at a multiple of 8 is never torn: no sector ends within it. A sum file may be shorter
//! than its object: the blocks that it lacks are zeros. The order in which its bytes reach the disk does not
//! matter: see [`change_log`](super::change_log).

use std::fs::File;
use std::io;

use super::block_sum::{BlockSum, SUM_BYTES, Unreadable};
use crate::disk::Disk;
use crate::object::ObjectName;

/// Appended to the name of the object.
pub(crate) const SUFFIX: &str = ".sums";
/// Length of the header in bytes.
pub(crate) const HEADER_BYTES: usize = 64;
const MAGIC: &[u8; 14] = b"heorot sums 1\n";
/// Sums read or written at a time.
const CHUNK: usize = 512;

/// Sums of some blocks, in their order.
pub(crate) type Sums = Vec<Result<BlockSum, Unreadable>>;

/// An open sum file.
#[derive(Debug)]
pub(crate) struct SumFile(pub File);

fn place(block: u64) -> u64 {
    HEADER_BYTES as u64 + block * SUM_BYTES as u64
}

fn header(name: &ObjectName) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..14].copy_from_slice(MAGIC);
    bytes[16..24].copy_from_slice(&name.inode.to_le_bytes());
    bytes[24..28].copy_from_slice(&name.column.to_le_bytes());
    bytes[28..32].copy_from_slice(&name.volume.to_le_bytes());
    bytes[32..36].copy_from_slice(&name.generation.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..60]);
    bytes[60..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

impl SumFile {
    /// True if its header is that of the object's sum file.
    pub(crate) fn has_header(&self, disk: &dyn Disk, name: &ObjectName) -> io::Result<bool> {
        let mut bytes = [0; HEADER_BYTES];
        let read = disk.read_at(&self.0, &mut bytes, 0)?;
        Ok(bytes[..read] == header(name))
    }

    /// Writes the header.
    pub(crate) fn put_header(&self, disk: &dyn Disk, name: &ObjectName) -> io::Result<()> {
        disk.write_all_at(&self.0, &header(name), 0)
    }

    /// Calls `visit` for `count` sums from block `first` on, until it returns false.
    pub(crate) fn each(
        &self,
        disk: &dyn Disk,
        first: u64,
        count: u64,
        visit: impl FnMut(u64, Result<BlockSum, Unreadable>) -> bool,
    ) -> io::Result<()> {
        let read = |file: &File, bytes: &mut [u8], at| disk.read_at(file, bytes, at).map(Some);
        self.each_by(read, first, count, visit).map(drop)
    }

    /// [`SumFile::each`] by `read`, as [`Disk::read_cached`]. None: it did not read all.
    pub(crate) fn each_by(
        &self,
        read: impl Fn(&File, &mut [u8], u64) -> io::Result<Option<usize>>,
        first: u64,
        count: u64,
        mut visit: impl FnMut(u64, Result<BlockSum, Unreadable>) -> bool,
    ) -> io::Result<Option<()>> {
        let mut bytes = [0; CHUNK * SUM_BYTES];
        let (mut at, end) = (first, first.saturating_add(count));
        while at < end {
            let n = (end - at).min(CHUNK as u64) as usize;
            let chunk = &mut bytes[..n * SUM_BYTES];
            let Some(found) = read(&self.0, chunk, place(at))? else { return Ok(None) };
            // Behind the end of the file are the sums of blocks of zeros.
            chunk[found..].fill(0);
            for sum in chunk.as_chunks::<SUM_BYTES>().0 {
                if !visit(at, BlockSum::from_bytes(*sum, at)) {
                    return Ok(Some(()));
                }
                at += 1;
            }
        }
        Ok(Some(()))
    }

    /// The sum of one block.
    pub(crate) fn get(&self, disk: &dyn Disk, block: u64) -> io::Result<Result<BlockSum, Unreadable>> {
        let mut bytes = [0; SUM_BYTES];
        let read = disk.read_at(&self.0, &mut bytes, place(block))?;
        bytes[read..].fill(0);
        Ok(BlockSum::from_bytes(bytes, block))
    }

    /// `count` sums from block `first` on.
    pub(crate) fn list(&self, disk: &dyn Disk, first: u64, count: u64) -> io::Result<Sums> {
        let mut sums = Vec::with_capacity(count.min(CHUNK as u64) as usize);
        self.each(disk, first, count, |_, sum| {
            sums.push(sum);
            true
        })?;
        Ok(sums)
    }

    /// True if one of `count` blocks from `first` on is known to be damaged.
    pub(crate) fn has_damaged(&self, disk: &dyn Disk, first: u64, count: u64) -> io::Result<bool> {
        let count = count.min(self.blocks()?.saturating_sub(first));
        let mut found = false;
        self.each(disk, first, count, |_, sum| {
            found = sum == Ok(BlockSum::Damaged);
            !found
        })?;
        Ok(found)
    }

    /// Writes the sums of the blocks from `first` on.
    pub(crate) fn put(&self, disk: &dyn Disk, first: u64, sums: &[BlockSum]) -> io::Result<()> {
        let mut bytes = [0; CHUNK * SUM_BYTES];
        let mut at = first;
        for chunk in sums.chunks(CHUNK) {
            for (i, sum) in chunk.iter().enumerate() {
                bytes[i * SUM_BYTES..][..SUM_BYTES].copy_from_slice(&sum.to_bytes(at + i as u64));
            }
            disk.write_all_at(&self.0, &bytes[..chunk.len() * SUM_BYTES], place(at))?;
            at += chunk.len() as u64;
        }
        Ok(())
    }

    /// Makes the sums of `count` blocks from `first` on those of zeros.
    pub(crate) fn clear(&self, disk: &dyn Disk, first: u64, count: u64) -> io::Result<()> {
        let end = self.blocks()?.min(first.saturating_add(count));
        if first >= end {
            return Ok(());
        }
        if disk.punch(&self.0, place(first), (end - first) * SUM_BYTES as u64).is_ok() {
            return Ok(());
        }
        // A file system without holes.
        let zeros = [BlockSum::Zeros; CHUNK];
        let mut at = first;
        while at < end {
            let n = (end - at).min(CHUNK as u64);
            self.put(disk, at, &zeros[..n as usize])?;
            at += n;
        }
        Ok(())
    }

    /// Removes the sums from block `count` on.
    pub(crate) fn shorten(&self, disk: &dyn Disk, count: u64) -> io::Result<()> {
        if self.blocks()? > count { disk.set_len(&self.0, place(count)) } else { Ok(()) }
    }

    /// Number of blocks whose sums it has room for.
    pub(crate) fn blocks(&self) -> io::Result<u64> {
        let len = self.0.metadata()?.len();
        Ok(len.saturating_sub(HEADER_BYTES as u64).div_ceil(SUM_BYTES as u64))
    }
}
