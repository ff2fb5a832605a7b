//! Payload-sized buffers that are used again, so that no operation pays for fresh pages from the kernel.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};

use bytes::Bytes;

/// Below this a buffer is simply allocated: the allocator is good at small sizes.
const POOLED_BYTES_MIN: usize = 64 * 1024;
/// Every pooled buffer has this room: one megabyte of payload and the headers around it.
const POOLED_BYTES: usize = (1 << 20) + (64 << 10);
/// Buffers kept for the next use: 64 of about a megabyte are enough for the calls in flight on a few busy connections.
const POOLED_MAX: usize = 64;

/// A set of buffers to be used again.
#[derive(Debug, Clone, Default)]
pub struct BufferPool {
    free: Arc<Mutex<Vec<Vec<u8>>>>,
}

/// A buffer of the length asked for. Its bytes are whatever was there before: fill it before you show it.
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    len: usize,
    pool: Option<BufferPool>,
}

impl BufferPool {
    /// A buffer of `len` bytes.
    ///
    /// # Panics
    /// When another thread panicked while it held the pool.
    #[must_use]
    pub fn take(&self, len: usize) -> Buffer {
        if !(POOLED_BYTES_MIN..=POOLED_BYTES).contains(&len) {
            return Buffer { bytes: vec![0; len], len, pool: None };
        }
        let used = self.free.lock().expect("buffer pool").pop();
        let bytes = used.unwrap_or_else(|| vec![0; POOLED_BYTES]);
        Buffer { bytes, len, pool: Some(self.clone()) }
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
        if let Some(pool) = &self.pool
            && let Ok(mut free) = pool.free.lock()
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
        assert_eq!(pool.free.lock().unwrap().len(), 0);
        drop(slice);
        assert_eq!(pool.free.lock().unwrap().len(), 1);
        assert_eq!(pool.take(70_000).len(), 70_000);
        assert_eq!(pool.free.lock().unwrap().len(), 1, "and went back again");
    }
}
