//! Store of a member, whose disk fails on request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use store::{Durability, Edit, MemoryStore, Pairs, Store, StoreError, View, Visitor};

#[derive(Default)]
pub struct Disk {
    store: MemoryStore,
    fails: Arc<AtomicBool>,
}

impl Disk {
    /// From now on, no record can be read.
    pub fn fail(&self) {
        self.fails.store(true, Ordering::Relaxed);
    }
}

struct DiskView {
    view: Box<dyn View + Send + Sync>,
    fails: Arc<AtomicBool>,
}

impl DiskView {
    fn check(&self) -> Result<(), StoreError> {
        match self.fails.load(Ordering::Relaxed) {
            true => Err(StoreError::failed("get", "EIO")),
            false => Ok(()),
        }
    }
}

impl View for DiskView {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.check()?;
        self.view.get(key)
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut Visitor<'_>) -> Result<(), StoreError> {
        self.check()?;
        self.view.scan(from, to, visit)
    }
}

impl Store for Disk {
    fn snapshot(&self) -> Result<Box<dyn View + Send + Sync>, StoreError> {
        Ok(Box::new(DiskView { view: self.store.snapshot()?, fails: Arc::clone(&self.fails) }))
    }

    fn batch(
        &self,
        durability: Durability,
        edit: &mut dyn FnMut(&mut dyn Edit) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.store.batch(durability, edit)
    }

    fn replace(&self, pairs: &mut Pairs<'_>) -> Result<(), StoreError> {
        self.store.replace(pairs)
    }
}
