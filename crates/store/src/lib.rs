//! Ordered key-value store on disk, behind a trait so narrow that another engine can replace redb.
//!
//! In: atomic batches of puts and deletes. Out: values, and scans of a key range in order, from a batch in
//! progress or from a snapshot that later batches do not change. The store never interprets keys or values.
//!
//! The log makes a command durable, not the store: a batch may be committed without a sync, and after a crash
//! the store is at an earlier batch, whole. The replica writes the applied index in the same batch as the
//! changes up to it, and replays the log from there.

mod damage;
mod layer;
mod memory;
mod patient;
mod redb_store;

pub use damage::is_guarded;
pub use memory::MemoryStore;
pub use redb_store::RedbStore;

use std::ops::ControlFlow;

use thiserror::Error;

/// Error of the store: the operation and the engine's cause.
#[derive(Debug, Error)]
#[error("metadata store, {doing}: {cause}")]
pub struct StoreError {
    /// Operation that failed.
    pub doing: &'static str,
    /// Error of the engine.
    pub cause: String,
    /// Kind of the error.
    pub trouble: Trouble,
}

impl StoreError {
    /// Error that says nothing about the bytes on the disk.
    pub fn failed(doing: &'static str, cause: impl std::fmt::Display) -> Self {
        Self { doing, cause: cause.to_string(), trouble: Trouble::Failed }
    }

    /// Error over bytes that the disk has altered.
    pub fn damaged(doing: &'static str, cause: impl std::fmt::Display) -> Self {
        Self { doing, cause: cause.to_string(), trouble: Trouble::Damaged }
    }
}

/// Kind of a store's error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The engine or the disk could not do it.
    Failed,
    /// The bytes on the disk are not those that were written.
    Damaged,
}

/// Reason that a store cannot be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The file is not a store, or is damaged.
    #[error("{0}")]
    Damaged(StoreError),
    /// Any other reason: the file is in use, may not be opened, or the disk failed.
    #[error("{0}")]
    Failed(StoreError),
}

/// Visitor of the keys and values of a scan, in order, until it breaks.
pub type Visitor<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// Consistent view of a store.
pub trait View {
    /// Returns the value under `key`.
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

impl<V: View + ?Sized> View for &V {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        (**self).get(key)
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut Visitor<'_>) -> Result<(), StoreError> {
        (**self).scan(from, to, visit)
    }
}

impl<V: View + ?Sized> View for Box<V> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        (**self).get(key)
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut Visitor<'_>) -> Result<(), StoreError> {
        (**self).scan(from, to, visit)
    }
}

/// View that can be changed; it reads its own writes.
pub trait Edit: View {
    /// Puts `value` under `key`, replacing what was there.
    ///
    /// # Errors
    /// [`StoreError`] when the engine fails.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError>;

    /// Deletes `key`, if it exists.
    ///
    /// # Errors
    /// [`StoreError`] when the engine fails.
    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError>;
}

/// Durability of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Visible at once, on disk with a later commit.
    Deferred,
    /// On disk when the commit returns.
    Immediate,
}

/// Store of keys and values.
pub trait Store: Send + Sync + 'static {
    /// Takes a view that later batches do not change. Cheap.
    ///
    /// # Errors
    /// [`StoreError`] when the engine fails.
    fn snapshot(&self) -> Result<Box<dyn View + Send + Sync>, StoreError>;

    /// Runs `edit` in one atomic batch and commits it. If `edit` fails, none of its changes remains.
    ///
    /// # Errors
    /// Error of `edit`, or [`StoreError`] when the engine fails.
    fn batch(
        &self,
        durability: Durability,
        edit: &mut dyn FnMut(&mut dyn Edit) -> Result<(), StoreError>,
    ) -> Result<(), StoreError>;

    /// Replaces all contents by `pairs`, in ascending order of keys, in one atomic step that is on disk when
    /// it returns. Not while a batch is in progress.
    ///
    /// # Errors
    /// Error of `pairs`, or [`StoreError`] when the engine fails; then nothing has changed.
    fn replace(&self, pairs: &mut Pairs<'_>) -> Result<(), StoreError>;
}

/// Keys and values in order; an error ends them.
pub type Pairs<'a> = dyn Iterator<Item = Result<(Vec<u8>, Vec<u8>), StoreError>> + 'a;
