//! End of a segment: appended bytes are on disk when the call returns.
//!
//! ```text
//! segment  │ … whole blocks … │ block with the end in it ┊ zeros │
//!                             └─ kept in memory, and written again with what comes ─▶
//! ```
//!
//! Whole blocks are written past the page cache where possible ([`Opened::Durable`]). The rest of the last
//! block becomes zeros, which mark the end of the log.

use std::io;
use std::path::Path;

use host::{File, Files, Opened};

/// Unit of direct writes, accepted by every disk and file system.
pub(crate) const BLOCK_BYTES: usize = 4096;

/// End of a segment.
pub(crate) struct Tail {
    file: Box<dyn File>,
    /// Offset of the next byte.
    position: u64,
    blocks: Blocks,
}

impl Tail {
    /// Opens the segment `path`, whose bytes before `position` are right and stay.
    pub(crate) fn open(files: &dyn Files, path: &Path, position: u64) -> io::Result<Self> {
        let mut blocks = Blocks::default();
        let kept = (position % BLOCK_BYTES as u64) as usize;
        files.open(path, Opened::Read)?.read_at(blocks.room(kept), position - kept as u64)?;
        Ok(Self { file: files.open(path, Opened::Durable)?, position, blocks })
    }

    #[cfg(test)]
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Appends `bytes` durably. After an error the contents of the disk are unknown.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let kept = (self.position % BLOCK_BYTES as u64) as usize;
        let whole = (kept + bytes.len()).next_multiple_of(BLOCK_BYTES);
        let room = self.blocks.room(whole);
        room[kept..kept + bytes.len()].copy_from_slice(bytes);
        room[kept + bytes.len()..].fill(0);
        let at = self.position - kept as u64;
        self.file.write_at(room, at)?;
        self.position += bytes.len() as u64;
        let kept = (self.position % BLOCK_BYTES as u64) as usize;
        self.blocks.keep_last(whole, kept);
        Ok(())
    }
}

/// Memory aligned to blocks, as direct writes need.
#[derive(Default)]
struct Blocks {
    memory: Vec<u8>,
}

impl Blocks {
    /// The first `len` bytes; those of the first block are unchanged.
    fn room(&mut self, len: usize) -> &mut [u8] {
        if self.memory.len() < len + BLOCK_BYTES {
            let mut larger =
                Blocks { memory: vec![0; (len + BLOCK_BYTES).next_power_of_two().max(4 * BLOCK_BYTES)] };
            if !self.memory.is_empty() {
                larger.room(BLOCK_BYTES).copy_from_slice(self.room(BLOCK_BYTES));
            }
            *self = larger;
        }
        let start = self.memory.as_ptr().align_offset(BLOCK_BYTES);
        &mut self.memory[start..start + len]
    }

    /// Moves the `kept` used bytes of the last of `len` bytes' blocks to the beginning.
    fn keep_last(&mut self, len: usize, kept: usize) {
        if kept > 0 {
            let room = self.room(len);
            room.copy_within(len - BLOCK_BYTES..len - BLOCK_BYTES + kept, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use host::SystemFiles;

    use super::*;

    #[test]
    fn what_is_appended_stands_one_after_the_other_whatever_its_length() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("segment");
        std::fs::write(&path, vec![0xee; 256 * 1024]).unwrap();
        let mut expected = vec![0xee; 16];
        let mut tail = Tail::open(&SystemFiles, &path, 16).unwrap();
        for (n, len) in [1, 100, 3979, 4096, 4097, 1, 12_000, 8192 - 16, 60_000, 5].into_iter().enumerate() {
            let bytes = vec![n as u8 + 1; len];
            tail.append(&bytes).unwrap();
            expected.extend_from_slice(&bytes);
            assert_eq!(tail.position(), expected.len() as u64);
            let found = std::fs::read(&path).unwrap();
            assert_eq!(found[..expected.len()], expected, "after {len} bytes");
            let end = expected.len().next_multiple_of(BLOCK_BYTES);
            assert!(found[expected.len()..end].iter().all(|b| *b == 0), "zeros to the end of the block");
            if n == 5 {
                tail = Tail::open(&SystemFiles, &path, tail.position()).unwrap();
            }
        }
        assert_eq!(std::fs::read(&path).unwrap().len(), 256 * 1024);
    }
}
