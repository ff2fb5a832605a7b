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
use std::io::ErrorKind;
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

use crate::layer::Layer;
use crate::patient::Patient;
use crate::{Durability, Edit, OpenError, Store, StoreError, View, Visitor};

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
    database: Database,
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
        let database = file.and_then(FileBackend::new).and_then(|file| Self::database(file, memory_bytes));
        let error = match database {
            Ok(database) => {
                let prepared = Self::prepare(database, memory_bytes);
                return prepared.map_err(OpenError::Damaged);
            }
            Err(error) => error,
        };
        let because = failed("open", format!("{}: {error}", path.display()));
        Err(if is_damage(&error) { OpenError::Damaged(because) } else { OpenError::Failed(because) })
    }

    /// Opens the store in `backend`; a simulation uses this in place of a file.
    ///
    /// # Errors
    /// [`StoreError`] when the content of the backend is not a store.
    pub fn open_backend(backend: impl StorageBackend, memory_bytes: usize) -> Result<Self, StoreError> {
        let database = Self::database(backend, memory_bytes).map_err(|cause| failed("open", cause))?;
        Self::prepare(database, memory_bytes)
    }

    fn database(backend: impl StorageBackend, memory_bytes: usize) -> Result<Database, DatabaseError> {
        Builder::new().set_cache_size(cache_bytes(memory_bytes)).create_with_backend(Patient(backend))
    }

    fn prepare(database: Database, memory_bytes: usize) -> Result<Self, StoreError> {
        // Create the table, so that a snapshot of an empty store finds it.
        write(&database, &Layer::default())?;
        let current = Snapshot { live: Layer::default(), frozen: Layer::default(), base: base(&database)? };
        Ok(Self {
            database,
            layer_bytes_max: layer_bytes(memory_bytes),
            current: Mutex::new(current),
            writer: Mutex::new(()),
            flusher: Mutex::new(()),
        })
    }

    /// Writes to disk all batches that were committed before this call.
    fn flush(&self) -> Result<(), StoreError> {
        let _one = self.flusher.lock();
        let frozen = {
            // Not while a batch is between its copy and its assignment.
            let _no_batch = self.writer.lock();
            let mut current = self.current.lock();
            if !current.frozen.is_empty() {
                return Err(failed("commit", "an earlier commit failed"));
            }
            current.frozen = std::mem::take(&mut current.live);
            current.frozen.clone()
        };
        write(&self.database, &frozen)?;
        let base = base(&self.database)?;
        let mut current = self.current.lock();
        current.base = base;
        current.frozen = Layer::default();
        Ok(())
    }
}

/// True if the bytes of the file are not those of a store. False for an unknown version, which may be a later
/// one, and for an error of the disk, which may be temporary.
fn is_damage(error: &DatabaseError) -> bool {
    match error {
        DatabaseError::RepairAborted | DatabaseError::Storage(StorageError::Corrupted(_)) => true,
        DatabaseError::Storage(StorageError::Io(error)) => {
            matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof)
        }
        _ => false,
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
    let mut transaction = database.begin_write().map_err(|cause| failed("begin a batch", cause))?;
    transaction
        .set_durability(redb::Durability::Immediate)
        .map_err(|cause| failed("begin a batch", cause))?;
    transaction.set_quick_repair(true);
    Ok(transaction)
}

/// Writes one transaction to disk, in the order of keys, which is the order of redb's pages.
fn write(database: &Database, changes: &Layer) -> Result<(), StoreError> {
    let transaction = begin(database)?;
    {
        let mut table = transaction.open_table(TABLE).map_err(|cause| failed("begin a batch", cause))?;
        for (key, change) in changes.iter() {
            match change {
                Some(value) => table.insert(key, &**value).map(drop),
                None => table.remove(key).map(drop),
            }
            .map_err(|cause| failed("put", cause))?;
        }
    }
    transaction.commit().map_err(|cause| failed("commit", cause))
}

fn base(database: &Database) -> Result<Base, StoreError> {
    let transaction = database.begin_read().map_err(|cause| failed("snapshot", cause))?;
    transaction.open_table(TABLE).map(Arc::new).map_err(|cause| failed("snapshot", cause))
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
        let transaction = begin(&self.database)?;
        transaction.delete_table(TABLE).map_err(|cause| failed("replace", cause))?;
        {
            let mut table = transaction.open_table(TABLE).map_err(|cause| failed("replace", cause))?;
            for pair in pairs {
                let (key, value) = pair?;
                table.insert(&*key, &*value).map_err(|cause| failed("put", cause))?;
            }
        }
        transaction.commit().map_err(|cause| failed("commit", cause))?;
        let base = base(&self.database)?;
        *self.current.lock() = Snapshot { live: Layer::default(), frozen: Layer::default(), base };
        Ok(())
    }
}

impl View for Snapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        if let Some(change) = self.live.get(key).or_else(|| self.frozen.get(key)) {
            return Ok(change.as_ref().map(|value| value.to_vec()));
        }
        let value = self.base.get(key).map_err(|cause| failed("get", cause))?;
        Ok(value.map(|value| value.value().to_vec()))
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut Visitor<'_>) -> Result<(), StoreError> {
        if from >= to {
            return Ok(()); // redb panics on a reversed range
        }
        let mut live = self.live.range(from, to).peekable();
        let mut frozen = self.frozen.range(from, to).peekable();
        let mut base = Pairs::new(self.base.range(from..to).map_err(|cause| failed("scan", cause))?)?;
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
        let following = self.rest.next().transpose().map_err(|cause| failed("scan", cause))?;
        Ok(std::mem::replace(&mut self.next, following))
    }
}

fn failed(doing: &'static str, cause: impl std::fmt::Display) -> StoreError {
    StoreError { doing, cause: cause.to_string() }
}
