//! Store on redb: one table of bytes, with the changes of the last second above it in memory.
//!
//! ```text
//! batch ─▶ live     changes since the last flush began          a batch is published by one assignment
//!          frozen   changes that the flush in progress writes
//!          base     the last redb transaction, on disk          one immediate commit for each flush
//! ```
//!
//! A read looks in this order; a snapshot is a copy of the three references. So a deferred commit costs only
//! its keys, not a copied path of pages for each key; a key that changes a thousand times in a second is
//! written once; and no batch waits for the disk. After a crash the store has the state of the last flush.

use std::fs::File;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use host::patiently;
use parking_lot::Mutex;
use redb::backends::FileBackend;
use redb::{
    AccessGuard, Builder, Database, DatabaseError, Range, ReadOnlyTable, ReadableDatabase as _,
    StorageBackend, StorageError, TableDefinition,
};

use crate::damage::{Cause as _, guarded, is_damage_at_open};
use crate::layer::Layer;
use crate::patient::Patient;
use crate::{Durability, Edit, OpenError, Store, StoreError, Trouble, View, Visitor};

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("heorot");

/// Share of the store's memory for each layer: one part in this many. redb's page cache gets the rest.
const LAYER_SHARE: usize = 8;
/// Largest layer, however much memory there is: it is written at once, and a batch that finds it full waits.
const LAYER_BYTES_MAX: usize = 32 << 20;

/// Store on disk, in one file.
///
/// Deferred commits stay in memory until an immediate one, or until they fill their share of the memory: then
/// the batch that fills it writes them. Immediate commits save the allocator state, too ("quick repair"), so
/// that opening after a crash does not read the whole file.
pub struct RedbStore {
    /// None once it is dropped.
    database: Option<Database>,
    layer_bytes_max: usize,
    current: Mutex<Snapshot>,
    /// Held by one batch at a time; snapshots do not wait for it.
    writer: Mutex<()>,
    /// Held by one flush at a time; batches do not wait for it.
    flusher: Mutex<()>,
}

/// Table of a read transaction, which it keeps alive.
type Base = Arc<ReadOnlyTable<&'static [u8], &'static [u8]>>;

/// Snapshot of the layers; an upper layer hides the keys of a lower one.
#[derive(Clone)]
struct Snapshot {
    live: Layer,
    frozen: Layer,
    base: Base,
}

impl RedbStore {
    /// Default memory.
    pub const MEMORY_BYTES_DEFAULT: usize = 256 * 1024 * 1024;

    /// Opens or creates the store in the file `path`. `memory_bytes` bounds redb's page cache and the
    /// unwritten changes together.
    ///
    /// # Errors
    /// [`OpenError`] when the file cannot be opened, is in use, or is not a store.
    pub fn open(path: impl AsRef<Path>, memory_bytes: usize) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let file = patiently("open the store", || options.open(path)).map_err(DatabaseError::from);
        let opened = guarded("open", || {
            let database = file.and_then(FileBackend::new).and_then(|file| Self::create(file, memory_bytes));
            match database {
                Ok(database) => Self::prepare(database, memory_bytes),
                Err(error) if is_damage_at_open(&error) => Err(StoreError::damaged("open", error)),
                Err(error) => Err(StoreError::failed("open", error)),
            }
        });
        opened.map_err(|error| {
            let error = StoreError { cause: format!("{}: {}", path.display(), error.cause), ..error };
            match error.trouble {
                Trouble::Damaged => OpenError::Damaged(error),
                Trouble::Failed => OpenError::Failed(error),
            }
        })
    }

    /// Opens the store in `backend`; a simulation uses this in place of a file.
    ///
    /// # Errors
    /// [`StoreError`] when the content of the backend is not a store.
    pub fn open_backend(backend: impl StorageBackend, memory_bytes: usize) -> Result<Self, StoreError> {
        guarded("open", || {
            let database = Self::create(backend, memory_bytes);
            Self::prepare(database.map_err(|cause| StoreError::failed("open", cause))?, memory_bytes)
        })
    }

    fn create(backend: impl StorageBackend, memory_bytes: usize) -> Result<Database, DatabaseError> {
        Builder::new().set_cache_size(cache_bytes(memory_bytes)).create_with_backend(Patient(backend))
    }

    fn prepare(database: Database, memory_bytes: usize) -> Result<Self, StoreError> {
        // Create the table, so that a snapshot of an empty store finds it.
        write(&database, &Layer::default())?;
        let current = Snapshot { live: Layer::default(), frozen: Layer::default(), base: base(&database)? };
        Ok(Self {
            database: Some(database),
            layer_bytes_max: layer_bytes(memory_bytes),
            current: Mutex::new(current),
            writer: Mutex::new(()),
            flusher: Mutex::new(()),
        })
    }

    fn database(&self) -> Result<&Database, StoreError> {
        self.database.as_ref().ok_or_else(|| StoreError::failed("use the store", "it is closed"))
    }

    /// Writes to disk all batches that were committed before this call.
    fn flush(&self) -> Result<(), StoreError> {
        let _one = self.flusher.lock();
        let frozen = {
            // Not while a batch is between its copy and its assignment.
            let _no_batch = self.writer.lock();
            let mut current = self.current.lock();
            if !current.frozen.is_empty() {
                return Err(StoreError::failed("commit", "an earlier commit failed"));
            }
            current.frozen = std::mem::take(&mut current.live);
            current.frozen.clone()
        };
        let database = self.database()?;
        write(database, &frozen)?;
        let base = base(database)?;
        let mut current = self.current.lock();
        current.base = base;
        current.frozen = Layer::default();
        Ok(())
    }
}

impl Drop for RedbStore {
    fn drop(&mut self) {
        // After damage, also the end of redb may panic.
        let _ = guarded("close", || {
            drop(self.database.take());
            Ok::<(), StoreError>(())
        });
    }
}

fn layer_bytes(memory_bytes: usize) -> usize {
    (memory_bytes / LAYER_SHARE).min(LAYER_BYTES_MAX)
}

/// Cache beside two layers: one is being written, the other takes new changes.
fn cache_bytes(memory_bytes: usize) -> usize {
    memory_bytes - 2 * layer_bytes(memory_bytes)
}

fn begin(database: &Database) -> Result<redb::WriteTransaction, StoreError> {
    let mut transaction = database.begin_write().map_err(|cause| cause.into_error("begin a batch"))?;
    transaction
        .set_durability(redb::Durability::Immediate)
        .map_err(|cause| cause.into_error("begin a batch"))?;
    transaction.set_quick_repair(true);
    Ok(transaction)
}

/// Writes one transaction to disk, in the order of keys, which is the order of redb's pages.
fn write(database: &Database, changes: &Layer) -> Result<(), StoreError> {
    guarded("write a batch", || {
        let transaction = begin(database)?;
        {
            let mut table =
                transaction.open_table(TABLE).map_err(|cause| cause.into_error("begin a batch"))?;
            for (key, change) in changes.iter() {
                match change {
                    Some(value) => table.insert(key, &**value).map(drop),
                    None => table.remove(key).map(drop),
                }
                .map_err(|cause| cause.into_error("put"))?;
            }
        }
        transaction.commit().map_err(|cause| cause.into_error("commit"))
    })
}

fn base(database: &Database) -> Result<Base, StoreError> {
    guarded("snapshot", || {
        let transaction = database.begin_read().map_err(|cause| cause.into_error("snapshot"))?;
        transaction.open_table(TABLE).map(Arc::new).map_err(|cause| cause.into_error("snapshot"))
    })
}

impl std::fmt::Debug for RedbStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedbStore").finish_non_exhaustive()
    }
}

impl Store for RedbStore {
    fn snapshot(&self) -> Result<Box<dyn View + Send + Sync>, StoreError> {
        Ok(Box::new(self.current.lock().clone()))
    }

    fn batch(
        &self,
        durability: Durability,
        edit: &mut dyn FnMut(&mut dyn Edit) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let full = {
            let _writer = self.writer.lock();
            let mut batch = self.current.lock().clone();
            edit(&mut batch)?;
            let full = batch.live.bytes() > self.layer_bytes_max;
            // Only this layer: a flush may have ended meanwhile.
            self.current.lock().live = batch.live;
            full
        };
        if full || durability == Durability::Immediate { self.flush() } else { Ok(()) }
    }

    fn replace(&self, pairs: &mut crate::Pairs<'_>) -> Result<(), StoreError> {
        let (_no_flush, _no_batch) = (self.flusher.lock(), self.writer.lock());
        let database = self.database()?;
        guarded("replace", || {
            let transaction = begin(database)?;
            transaction.delete_table(TABLE).map_err(|cause| cause.into_error("replace"))?;
            {
                let mut table = transaction.open_table(TABLE).map_err(|cause| cause.into_error("replace"))?;
                for pair in pairs {
                    let (key, value) = pair?;
                    table.insert(&*key, &*value).map_err(|cause| cause.into_error("put"))?;
                }
            }
            transaction.commit().map_err(|cause| cause.into_error("commit"))
        })?;
        let base = base(database)?;
        *self.current.lock() = Snapshot { live: Layer::default(), frozen: Layer::default(), base };
        Ok(())
    }
}

impl View for Snapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        if let Some(change) = self.live.get(key).or_else(|| self.frozen.get(key)) {
            return Ok(change.as_ref().map(|value| value.to_vec()));
        }
        guarded("get", || Ok::<_, StorageError>(self.base.get(key)?.map(|value| value.value().to_vec())))
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut Visitor<'_>) -> Result<(), StoreError> {
        if from >= to {
            return Ok(()); // redb panics on a reversed range
        }
        let mut live = self.live.range(from, to).peekable();
        let mut frozen = self.frozen.range(from, to).peekable();
        let mut base = Pairs::new(guarded("scan", || self.base.range(from..to))?)?;
        loop {
            let keys = [live.peek().map(|(key, _)| *key), frozen.peek().map(|(key, _)| *key), base.key()];
            let Some(least) = keys.iter().flatten().min() else { return Ok(()) };
            let [in_live, in_frozen, in_base] = keys.map(|key| key == Some(*least));
            let above = if in_live { live.next() } else { None };
            let middle = if in_frozen { frozen.next() } else { None };
            let below = if in_base { base.take()? } else { None };
            let flow = match (above.or(middle), below) {
                (Some((key, Some(value))), _) => visit(key, value),
                (None, Some((key, value))) => visit(key.value(), value.value()),
                (Some((_, None)), _) | (None, None) => ControlFlow::Continue(()),
            };
            if flow.is_break() {
                return Ok(());
            }
        }
    }
}

impl Edit for Snapshot {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.live.set(key, Some(value));
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.live.set(key, None);
        Ok(())
    }
}

type Pair<'a> = (AccessGuard<'a, &'static [u8]>, AccessGuard<'a, &'static [u8]>);

/// Range of redb, with a look at the next key.
struct Pairs<'a> {
    rest: Range<'a, &'static [u8], &'static [u8]>,
    next: Option<Pair<'a>>,
}

impl<'a> Pairs<'a> {
    fn new(range: Range<'a, &'static [u8], &'static [u8]>) -> Result<Self, StoreError> {
        let mut pairs = Self { rest: range, next: None };
        pairs.take()?;
        Ok(pairs)
    }

    fn key(&self) -> Option<&[u8]> {
        self.next.as_ref().map(|(key, _)| key.value())
    }

    fn take(&mut self) -> Result<Option<Pair<'a>>, StoreError> {
        let following = guarded("scan", || {
            let following = self.rest.next().transpose()?;
            // If they lie outside of a damaged page, these panic: here, and not at a later call.
            let _ = following.as_ref().map(|(key, value)| (key.value(), value.value()));
            Ok::<_, StorageError>(following)
        })?;
        Ok(std::mem::replace(&mut self.next, following))
    }
}
