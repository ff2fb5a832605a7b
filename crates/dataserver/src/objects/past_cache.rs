//! Large writes far behind in an object go past the kernel's cache: most of their cost is its pages.
//!
//! What is read soon after it was written is read from the cache, so the first part of each object goes through it, as
//! everything that is small does. An object that is longer than that is one of many that the cache cannot hold.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Advice, Mode, OFlags, fadvise};
use rustix::io::Errno;
use wire::xdr::Payload;

use super::Objects;
use crate::object::OpenObject;

/// Multiple of addresses, offsets and lengths past the cache: no disk wants more.
pub(crate) const ALIGNMENT: usize = 4096;
/// Shortest write that is worth a request to the disk of its own.
const BYTES_MIN: usize = 256 << 10;
/// Part of the memory that each object may have in the cache.
const MEMORY_PARTS: u64 = 16;

/// Which writes go past the cache.
#[derive(Debug)]
pub(crate) struct PastCache {
    /// First offset in an object.
    from: u64,
    /// The file system has refused it.
    is_refused: AtomicBool,
}

impl PastCache {
    /// Writes behind the first `kept` bytes of their objects.
    pub(crate) fn new(kept: u64) -> Self {
        Self { from: kept, is_refused: AtomicBool::new(false) }
    }

    /// Bytes of an object that the cache may have on this machine.
    pub(crate) fn kept_on_machine() -> u64 {
        host::memory_bytes() / MEMORY_PARTS
    }

    fn takes(&self, offset: u64, len: usize) -> bool {
        let is_aligned = offset.is_multiple_of(ALIGNMENT as u64) && len.is_multiple_of(ALIGNMENT);
        is_aligned && len >= BYTES_MIN && offset >= self.from && !self.is_refused.load(Ordering::Relaxed)
    }
}

/// An object's file, opened to be written past the cache, or none where the file system cannot do that.
pub(crate) type DirectFile = OnceLock<Option<File>>;

impl Objects {
    /// Writes past the cache what is to go past it. False: it is to go through the cache. The caller has `writing`.
    ///
    /// # Errors
    /// The kernel's; some of the bytes may have been written.
    pub(crate) fn write_past_cache(
        &self,
        open: &OpenObject,
        offset: u64,
        payload: &Payload,
    ) -> io::Result<bool> {
        if !self.past_cache.takes(offset, payload.len()) {
            return Ok(false);
        }
        let Some(file) = open.direct.get_or_init(|| open_direct(&open.file)) else { return Ok(false) };
        let mut bytes = self.pool.take(payload.len()); // aligned, as it is large
        debug_assert_eq!(bytes.as_ptr().align_offset(ALIGNMENT), 0, "of the pool");
        let mut at = 0;
        for piece in payload.segments() {
            bytes[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        match self.disk.write_past_cache(file, &bytes, offset) {
            Err(error) if is_refusal(&error) => {
                self.past_cache.is_refused.store(true, Ordering::Relaxed);
                Ok(false)
            }
            Err(error) => {
                // What the disk has now is no longer what the cache has.
                let _ = fadvise(&open.file, offset, std::num::NonZeroU64::new(at as u64), Advice::DontNeed);
                Err(error)
            }
            written => written,
        }
    }
}

/// The same file, even if its name is gone. None: the file system cannot do that, or the process has no more files.
fn open_direct(file: &File) -> Option<File> {
    let opened = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    rustix::fs::open(opened, flags, Mode::empty()).ok().map(File::from)
}

/// True if the file system wants other alignments, or nothing past the cache.
fn is_refusal(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::INVAL | Errno::OPNOTSUPP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_aligned_writes_behind_the_first_part_go_past_the_cache() {
        let past = PastCache::new(1 << 30);
        let table = [
            ((1 << 30, 1 << 20), true),
            ((1 << 30, BYTES_MIN), true),
            ((1 << 30, BYTES_MIN - ALIGNMENT), false),
            ((1 << 30, BYTES_MIN + 512), false),
            (((1 << 30) + 512, 1 << 20), false),
            (((1 << 30) - ALIGNMENT as u64, 1 << 20), false),
            ((0, 1 << 20), false),
        ];
        for ((offset, len), takes) in table {
            assert_eq!(past.takes(offset, len), takes, "{offset} {len}");
        }
        past.is_refused.store(true, Ordering::Relaxed);
        assert!(!past.takes(1 << 30, 1 << 20));
    }
}
