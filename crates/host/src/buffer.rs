//! Pool of payload-sized buffers, so that no operation pays for fresh pages from the kernel.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

/// Minimal length of a pooled buffer: the allocator is good at small sizes.
const POOLED_BYTES_MIN: usize = 64 * 1024;
/// Alignment of all but small buffers: that of a page, so that a page of the kernel's cache is copied to the same place
/// within a page. To 16 bytes behind it, where an allocator puts large buffers, the copy takes 3.5 times as long (AMD
/// EPYC, `rep movsb`).
const ALIGNMENT: usize = 4096;
/// Bytes of a record besides its payload.
const AROUND_BYTES: usize = 8 * 1024;
/// Size classes of pooled buffers: a payload of a power of two and the rest of its record, so that a buffer
/// takes at most a little more than twice the requested length.
const CLASSES: [usize; 5] = [
    (64 << 10) + AROUND_BYTES,
    (128 << 10) + AROUND_BYTES,
    (256 << 10) + AROUND_BYTES,
    (512 << 10) + AROUND_BYTES,
    (1 << 20) + (64 << 10),
];
/// Free buffers kept for each class: 64 of about a megabyte are enough for the calls in flight on a few busy
/// connections.
const POOLED_MAX: usize = 64;

/// Pool of buffers.
#[derive(Debug, Clone, Default)]
pub struct BufferPool {
    free: Arc<[Mutex<Vec<Vec<u8>>>; CLASSES.len()]>,
}

/// Size class of a buffer of `len` bytes; none: not pooled.
fn class(len: usize) -> Option<usize> {
    if len < POOLED_BYTES_MIN { None } else { CLASSES.iter().position(|room| len <= *room) }
}

/// Buffer of the requested length. It has the bytes of its last use: fill it before sending.
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    /// Offset of the first of them that is used.
    start: usize,
    len: usize,
    pool: Option<(BufferPool, usize)>,
}

impl BufferPool {
    /// Takes a buffer of `len` bytes, aligned to a page if they are 64 KiB or more.
    ///
    /// # Panics
    /// When another thread panicked while it held the pool.
    #[must_use]
    pub fn take(&self, len: usize) -> Buffer {
        let class = class(len);
        let used = class.and_then(|class| self.free[class].lock().pop());
        let bytes = used.unwrap_or_else(|| vec![0; Self::bytes_taken(len)]);
        let start = if len < POOLED_BYTES_MIN { 0 } else { bytes.as_ptr().align_offset(ALIGNMENT) };
        Buffer { bytes, start, len, pool: class.map(|class| (self.clone(), class)) }
    }

    /// Whether both are the same pool.
    #[must_use]
    pub fn is_same_as(&self, other: &BufferPool) -> bool {
        Arc::ptr_eq(&self.free, &other.free)
    }

    /// Memory of a buffer of `len` bytes.
    #[must_use]
    pub fn bytes_taken(len: usize) -> usize {
        if len < POOLED_BYTES_MIN { len } else { class(len).map_or(len, |class| CLASSES[class]) + ALIGNMENT }
    }
}

impl Buffer {
    /// Shortens the buffer; never extends it.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Shares the filled buffer; it returns to its pool when its last slice is dropped.
    #[must_use]
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..][..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..][..self.len]
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some((pool, class)) = &self.pool {
            let mut free = pool.free[*class].lock();
            if free.len() < POOLED_MAX {
                free.push(std::mem::take(&mut self.bytes));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_when_its_last_slice_is_dropped() {
        let pool = BufferPool::default();
        let mut buffer = pool.take(100_000);
        buffer[0] = 7;
        let whole = buffer.freeze();
        let slice = whole.slice(0..10);
        drop(whole);
        let free = |class: usize| pool.free[class].lock().len();
        assert_eq!(free(1), 0);
        drop(slice);
        assert_eq!(free(1), 1);
        assert_eq!(pool.take(90_000).len(), 90_000);
        assert_eq!((free(0), free(1)), (0, 1), "and went back again");
        assert_eq!(pool.take(70_000).len(), 70_000);
        assert_eq!((free(0), free(1)), (1, 1));
    }

    #[test]
    fn a_buffer_takes_little_more_than_twice_what_was_asked_for() {
        for len in (1..(1 << 20) + (64 << 10)).step_by(1000) {
            let taken = BufferPool::bytes_taken(len);
            assert!(taken >= len && taken <= 2 * len + (48 << 10) + ALIGNMENT, "{taken} for {len}");
            let buffer = BufferPool::default().take(len);
            assert_eq!((buffer.bytes.len(), buffer.len()), (taken, len));
            assert!(len < POOLED_BYTES_MIN || buffer.as_ptr().align_offset(ALIGNMENT) == 0, "{len}");
        }
    }
}
