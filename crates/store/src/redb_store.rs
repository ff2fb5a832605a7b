//! redb behind the trait: one table, bytes to bytes.

use std::path::Path;

use redb::{
    Builder, Database, ReadOnlyTable, ReadableDatabase as _, ReadableTable, StorageBackend, Table,
    TableDefinition,
};

use crate::{Durability, Edit, Store, StoreError, View, Visitor};

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("heorot");

/// A store on disk, in one file.
///
/// A deferred commit is visible at once and goes to the disk with the next immediate one; after a crash the store is
/// as the last immediate commit left it. Commit immediately at least once a second: pages freed in between are not
/// used again before, so the file grows. Immediate commits save the allocator state too ("quick repair"), so that
/// opening after a crash does not walk the whole file.
pub struct RedbStore {
    database: Database,
}

impl RedbStore {
    /// Memory for redb's page cache when the caller has no better idea.
    pub const CACHE_BYTES_DEFAULT: usize = 256 * 1024 * 1024;

    /// Opens the store in the file `path`, or makes it. `cache_bytes` bounds redb's page cache.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be opened, is in use, or is not a store.
    pub fn open(path: impl AsRef<Path>, cache_bytes: usize) -> Result<Self, StoreError> {
        let database = Builder::new()
            .set_cache_size(cache_bytes)
            .create(path.as_ref())
            .map_err(|cause| failed("open", format!("{}: {cause}", path.as_ref().display())))?;
        Self::prepare(database)
    }

    /// Opens the store in `backend`, which simulation puts in a file's place.
    ///
    /// # Errors
    /// [`StoreError`] when what the backend holds is not a store.
    pub fn open_backend(backend: impl StorageBackend, cache_bytes: usize) -> Result<Self, StoreError> {
        let database = Builder::new()
            .set_cache_size(cache_bytes)
            .create_with_backend(backend)
            .map_err(|cause| failed("open", cause))?;
        Self::prepare(database)
    }

    /// Makes the table, so that a snapshot of an empty store finds it.
    fn prepare(database: Database) -> Result<Self, StoreError> {
        let store = Self { database };
        store.batch(Durability::Immediate, &mut |_| Ok(()))?;
        Ok(store)
    }
}

impl std::fmt::Debug for RedbStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedbStore").finish_non_exhaustive()
    }
}

impl Store for RedbStore {
    fn snapshot(&self) -> Result<Box<dyn View + Send + Sync>, StoreError> {
        let transaction = self.database.begin_read().map_err(|cause| failed("snapshot", cause))?;
        let table = transaction.open_table(TABLE).map_err(|cause| failed("snapshot", cause))?;
        Ok(Box::new(Snapshot(table)))
    }

    fn batch(
        &self,
        durability: Durability,
        edit: &mut dyn FnMut(&mut dyn Edit) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut transaction = self.database.begin_write().map_err(|cause| failed("begin a batch", cause))?;
        let redb_durability = match durability {
            Durability::Deferred => redb::Durability::None,
            Durability::Immediate => redb::Durability::Immediate,
        };
        transaction.set_durability(redb_durability).map_err(|cause| failed("begin a batch", cause))?;
        transaction.set_quick_repair(durability == Durability::Immediate);
        let outcome = {
            let table = transaction.open_table(TABLE).map_err(|cause| failed("begin a batch", cause))?;
            edit(&mut Batch(table))
        };
        match outcome {
            Ok(()) => transaction.commit().map_err(|cause| failed("commit", cause)),
            Err(error) => {
                transaction.abort().map_err(|cause| failed("abort", cause))?;
                Err(error)
            }
        }
    }
}

/// The table keeps its read transaction alive.
struct Snapshot(ReadOnlyTable<&'static [u8], &'static [u8]>);

impl View for Snapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        get(&self.0, key)
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut Visitor<'_>) -> Result<(), StoreError> {
        scan(&self.0, from, to, visit)
    }
}

struct Batch<'a>(Table<'a, &'static [u8], &'static [u8]>);

impl View for Batch<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        get(&self.0, key)
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut Visitor<'_>) -> Result<(), StoreError> {
        scan(&self.0, from, to, visit)
    }
}

impl Edit for Batch<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.0.insert(key, value).map(drop).map_err(|cause| failed("put", cause))
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.0.remove(key).map(drop).map_err(|cause| failed("delete", cause))
    }
}

fn get(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    key: &[u8],
) -> Result<Option<Vec<u8>>, StoreError> {
    let value = table.get(key).map_err(|cause| failed("get", cause))?;
    Ok(value.map(|value| value.value().to_vec()))
}

fn scan(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    from: &[u8],
    to: &[u8],
    visit: &mut Visitor<'_>,
) -> Result<(), StoreError> {
    if from >= to {
        return Ok(()); // redb panics on a range that is upside down
    }
    for pair in table.range(from..to).map_err(|cause| failed("scan", cause))? {
        let (key, value) = pair.map_err(|cause| failed("scan", cause))?;
        if visit(key.value(), value.value()).is_break() {
            break;
        }
    }
    Ok(())
}

fn failed(doing: &'static str, cause: impl std::fmt::Display) -> StoreError {
    StoreError { doing, cause: cause.to_string() }
}
