//! Segments of a message as one buffer.

use bytes::{Buf, Bytes};

/// List of segments as one buffer for vectored writes.
pub(super) struct Segments {
    pub segments: Vec<Bytes>,
    pub first: usize,
}

impl Buf for Segments {
    fn remaining(&self) -> usize {
        self.segments[self.first..].iter().map(Bytes::len).sum()
    }

    fn has_remaining(&self) -> bool {
        self.segments[self.first..].iter().any(|s| !s.is_empty())
    }

    fn chunk(&self) -> &[u8] {
        self.segments[self.first..].iter().find(|s| !s.is_empty()).map_or(&[], |s| s)
    }

    fn advance(&mut self, mut count: usize) {
        while count > 0 {
            let segment = &mut self.segments[self.first];
            let n = count.min(segment.len());
            segment.advance(n);
            count -= n;
            if segment.is_empty() {
                // Drop it at once: its buffer returns to the pool.
                *segment = Bytes::new();
                self.first += 1;
            }
        }
    }

    fn chunks_vectored<'a>(&'a self, out: &mut [std::io::IoSlice<'a>]) -> usize {
        let mut n = 0;
        for segment in self.segments[self.first..].iter().filter(|s| !s.is_empty()) {
            if n == out.len() {
                break;
            }
            out[n] = std::io::IoSlice::new(segment);
            n += 1;
        }
        n
    }
}
