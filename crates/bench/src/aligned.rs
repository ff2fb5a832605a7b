//! Aligned buffer for `O_DIRECT`, which needs memory aligned to the disk's block.

/// Largest block of a disk: 4 KiB, also a page.
const ALIGNMENT: usize = 4096;

/// Bytes aligned to 4096.
pub struct AlignedBuffer {
    /// Longer than the used part, and never grown, which could move it.
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl AlignedBuffer {
    /// Buffer of `length` bytes.
    #[must_use]
    pub fn new(length: usize) -> Self {
        // Touch all pages now, so that no page fault is in the measured time.
        let memory = vec![0xa5; length + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        Self { memory, start, length }
    }

    /// All bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }

    /// All bytes, mutable.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_where_a_page_does() {
        for length in [1, 3901, 4096, 1 << 20] {
            let mut buffer = AlignedBuffer::new(length);
            assert_eq!(buffer.bytes_mut().as_ptr().addr() % ALIGNMENT, 0);
            assert_eq!(buffer.bytes().len(), length);
        }
    }
}
