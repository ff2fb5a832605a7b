//! Payload-sized buffers that are used again, so that no operation pays for fresh pages from the kernel.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};

use bytes::Bytes;

/// Below this a buffer is simply allocated: the allocator is good at small sizes.
const POOLED_BYTES_MIN: usize = 64 * 1024;
/// Bytes around a payload in its record.
const AROUND_BYTES: usize = 8 * 1024;
/// The room of pooled buffers: a payload of a power of two and what is around it, so that none takes much
/// more than twice what was asked for.
const CLASSES: [usize; 5] = [
    (64 << 10) + AROUND_BYTES,
    (128 << 10) + AROUND_BYTES,
    (256 << 10) + AROUND_BYTES,
    (512 << 10) + AROUND_BYTES,
    (1 << 20) + (64 << 10),
];
/// Buffers of each class kept for the next use: 64 of about a megabyte are enough for the calls in flight on
/// a few busy connections.
const POOLED_MAX: usize = 64;

/// A set of buffers to be used again.
#[derive(Debug, Clone, Default)]
pub struct BufferPool {
    free: Arc<[Mutex<Vec<Vec<u8>>>; CLASSES.len()]>,
}

/// The class of a buffer of `len` bytes, if such are pooled.
fn class(len: usize) -> Option<usize> {
    if len < POOLED_BYTES_MIN { None } else { CLASSES.iter().position(|room| len <= *room) }
}

/// A buffer of the length asked for. Its bytes are whatever was there before: fill it before you show it.
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    len: usize,
    pool: Option<(BufferPool, usize)>,
}

impl BufferPool {
    /// A buffer of `len` bytes.
    ///
    /// # Panics
    /// When another thread panicked while it held the pool.
    #[must_use]
    pub fn take(&self, len: usize) -> Buffer {
        let Some(class) = class(len) else {
            return Buffer { bytes: vec![0; len], len, pool: None };
        };
        let used = self.free[class].lock().expect("buffer pool").pop();
        let bytes = used.unwrap_or_else(|| vec![0; CLASSES[class]]);
        Buffer { bytes, len, pool: Some((self.clone(), class)) }
    }

    /// Whether both take their buffers from the same place.
    #[must_use]
    pub fn is_same_as(&self, other: &BufferPool) -> bool {
        Arc::ptr_eq(&self.free, &other.free)
    }

    /// The memory that a buffer of `len` bytes takes.
    #[must_use]
    pub fn bytes_taken(len: usize) -> usize {
        class(len).map_or(len, |class| CLASSES[class])
    }
}

impl Buffer {
    /// Shortens the buffer; never lengthens it.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// The filled buffer, shared; it returns to its pool when the last slice of it is dropped.
    #[must_use]
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some((pool, class)) = &self.pool
            && let Ok(mut free) = pool.free[*class].lock()
            && free.len() < POOLED_MAX
        {
            free.push(std::mem::take(&mut self.bytes));
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
        let free = |class: usize| pool.free[class].lock().unwrap().len();
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
            assert!(taken >= len && taken <= 2 * len + (48 << 10), "{taken} for {len}");
            assert_eq!(BufferPool::default().take(len).bytes.len(), taken);
        }
    }
}
