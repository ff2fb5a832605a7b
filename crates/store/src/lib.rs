//! An ordered key-value store on disk, behind a trait narrow enough that another engine can take its place.
//!
//! In: atomic batches of puts and deletes. Out: values, and scans of a key range in order, from a batch in progress or
//! from a snapshot that later batches do not change. It never interprets a key or a value.
//!
//! The log is what makes a command durable, never the store: a batch may be committed without a sync, and after a
//! crash the store is at an earlier batch, whole. The replica keeps the applied index in the same batch as what it
//! covers, and replays from there.

mod layer;
mod memory;
mod patient;
mod redb_store;

pub use memory::MemoryStore;
pub use redb_store::RedbStore;

use std::ops::ControlFlow;

use thiserror::Error;

/// The store failed: the world's fault, not the caller's. Says what was being done.
#[derive(Debug, Error)]
#[error("metadata store, {doing}: {cause}")]
pub struct StoreError {
    /// What was being done.
    pub doing: &'static str,
    /// What the engine said.
    pub cause: String,
}

/// Why a store cannot be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// What the file holds is not a store, or no longer.
    #[error("{0}")]
    Damaged(StoreError),
    /// Anything else: it is in use, may not be opened, or the disk failed.
    #[error("{0}")]
    Failed(StoreError),
}

/// Called with each key and value of a scan, in order, until it breaks.
pub type Visitor<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// One consistent view.
pub trait View {
    /// The value under `key`.
    ///
    /// # Errors
    /// [`StoreError`] when the engine fails.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Visits the pairs with `from <= key < to`, in ascending order.
    ///
    /// # Errors
    /// [`StoreError`] when the engine fails.
    fn scan(&self, from: &[u8], to: &[u8], visit: &mut Visitor<'_>) -> Result<(), StoreError>;
}

/// A view that can be changed; it reads its own writes.
pub trait Edit: View {
    /// Puts `value` under `key`, replacing what was there.
    ///
    /// # Errors
    /// [`StoreError`] when the engine fails.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError>;

    /// Deletes `key`, if it is there.
    ///
    /// # Errors
    /// [`StoreError`] when the engine fails.
    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError>;
}

/// Whether a commit waits for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Visible at once, on disk with a later commit.
    Deferred,
    /// On disk when the commit returns.
    Immediate,
}

/// A store.
pub trait Store: Send + Sync + 'static {
    /// A view that later batches do not change. Cheap to take.
    ///
    /// # Errors
    /// [`StoreError`] when the engine fails.
    fn snapshot(&self) -> Result<Box<dyn View + Send + Sync>, StoreError>;

    /// Runs `edit` in one atomic batch and commits it. When `edit` fails nothing of it remains.
    ///
    /// # Errors
    /// What `edit` returned, or [`StoreError`] when the engine fails.
    fn batch(
        &self,
        durability: Durability,
        edit: &mut dyn FnMut(&mut dyn Edit) -> Result<(), StoreError>,
    ) -> Result<(), StoreError>;

    /// Puts these pairs, in ascending order of their keys, in the place of all that is there: in one atomic step, which
    /// is on disk when it returns. Not while a batch is carried out.
    ///
    /// # Errors
    /// What `pairs` gave, or [`StoreError`] when the engine fails; then nothing has changed.
    fn replace(&self, pairs: &mut Pairs<'_>) -> Result<(), StoreError>;
}

/// Keys and values, one after the other, or why there are no more.
pub type Pairs<'a> = dyn Iterator<Item = Result<(Vec<u8>, Vec<u8>), StoreError>> + 'a;
