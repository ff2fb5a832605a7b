//! Pieces of boot files in memory: machines that start together load the same kernel and initramfs, and each piece is read
//! from the data servers once.
//!
//! The files of snapshots do not change. A file of a group's own root that is changed while machines load it gets another
//! change number, and later loads read it anew. The memory is given back when no machine has loaded anything for a minute.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use host::memory_bytes;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::{Registry, Unit};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tokio::time::Instant;

use super::files::Version;

/// Bytes of a piece.
pub(super) const PIECE_BYTES: u32 = 256 << 10;
/// Bytes kept: more than the kernel and initramfs of two images.
const KEPT_BYTES_MAX: u64 = 512 << 20;
/// Part of the machine's memory that is kept at most.
const MEMORY_PART: u64 = 16;
/// Time after the last load until the memory is given back.
const IDLE: Duration = Duration::from_secs(60);

/// Version of a file, and the offset of the piece in it.
type Key = (Version, u64);

#[derive(Debug, Clone)]
struct ByLength;

impl Weighter<Key, Bytes> for ByLength {
    fn weight(&self, _: &Key, piece: &Bytes) -> u64 {
        piece.len() as u64
    }
}

/// The pieces, and counters of them.
#[derive(Debug)]
pub struct BootCache {
    pieces: Cache<Key, Bytes, ByLength>,
    used: Mutex<Option<Instant>>,
    is_watched: AtomicBool,
    sent: Counter,
    read: Counter,
}

impl Default for BootCache {
    fn default() -> Self {
        Self::of(KEPT_BYTES_MAX.min(memory_bytes() / MEMORY_PART))
    }
}

impl BootCache {
    fn of(bytes_max: u64) -> Self {
        let pieces = (bytes_max / u64::from(PIECE_BYTES)).max(1);
        Self {
            pieces: Cache::with_weighter(usize::try_from(pieces).unwrap_or(usize::MAX), bytes_max, ByLength),
            used: Mutex::default(),
            is_watched: AtomicBool::new(false),
            sent: Counter::default(),
            read: Counter::default(),
        }
    }

    /// Registers the counters with `registry`.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "boot_sent",
            "Bytes of kernels, initramfs and loaders that were read for machines that boot",
            Unit::Bytes,
            self.sent.clone(),
        );
        registry.register_with_unit(
            "boot_read",
            "Bytes of these that came from data servers, and not from memory",
            Unit::Bytes,
            self.read.clone(),
        );
    }

    /// The piece at `offset`, a multiple of [`PIECE_BYTES`]: `read` reads it, once for all calls at the same time.
    pub(super) async fn piece<E>(
        self: &Arc<Self>,
        version: Version,
        offset: u64,
        read: impl Future<Output = Result<Bytes, E>>,
    ) -> Result<Bytes, E> {
        *self.used.lock() = Some(Instant::now());
        let fetched = async {
            let piece = read.await?;
            self.read.inc_by(piece.len() as u64);
            Ok(piece)
        };
        let piece = self.pieces.get_or_insert_async(&(version, offset), fetched).await?;
        self.forget_later();
        self.sent.inc_by(piece.len() as u64);
        Ok(piece)
    }

    /// Starts the task that gives the memory back, unless it runs.
    fn forget_later(self: &Arc<Self>) {
        if self.is_watched.swap(true, Ordering::AcqRel) {
            return;
        }
        let cache = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                let used = *cache.used.lock();
                let until = used.map_or_else(Instant::now, |used| used + IDLE);
                if until <= Instant::now() {
                    break;
                }
                tokio::time::sleep_until(until).await;
            }
            cache.is_watched.store(false, Ordering::Release);
            cache.pieces.clear();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: u64 = PIECE_BYTES as u64;

    async fn load(cache: &Arc<BootCache>, version: Version, pieces: u64) {
        for offset in (0..pieces).map(|n| n * PIECE) {
            let read = async { Ok::<_, ()>(Bytes::from(vec![offset as u8; PIECE_BYTES as usize])) };
            let piece = cache.piece(version, offset, read).await.unwrap();
            assert!(piece.len() as u64 == PIECE && piece[0] == offset as u8);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_piece_is_read_once_while_machines_load_it_and_forgotten_afterwards() {
        let cache = Arc::new(BootCache::of(400 * PIECE)); // it is divided into shards
        let machines = (0..10).map(|_| load(&cache, (1, 1), 80));
        futures_util::future::join_all(machines).await;
        assert_eq!((cache.read.get(), cache.sent.get()), (80 * PIECE, 800 * PIECE));
        // Another version of the file is another file.
        load(&cache, (1, 2), 1).await;
        assert_eq!(cache.read.get(), 81 * PIECE);
        tokio::time::sleep(IDLE / 2).await;
        load(&cache, (1, 1), 1).await;
        tokio::time::sleep(IDLE * 3 / 4).await;
        assert!(cache.pieces.len() >= 80, "it was used since");
        tokio::time::sleep(IDLE).await;
        assert_eq!(cache.pieces.len(), 0);
        load(&cache, (1, 1), 1).await;
        assert_eq!(cache.read.get(), 82 * PIECE);
    }

    #[tokio::test]
    async fn a_read_that_fails_is_tried_again_and_no_more_is_kept_than_there_is_room_for() {
        let cache = Arc::new(BootCache::of(10 * PIECE));
        let failed = cache.piece((1, 1), 0, async { Err::<Bytes, _>("away") }).await;
        assert_eq!(failed, Err("away"));
        load(&cache, (1, 1), 100).await;
        assert!(cache.pieces.weight() <= 10 * PIECE);
    }
}
