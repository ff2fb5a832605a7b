//! Store in memory that returns to its last flush after a crash, and keeps a hash of its contents.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::{Bound, ControlFlow};

use imbl::OrdMap;
use parking_lot::{Mutex, MutexGuard};
use store::{Durability, Edit, Pairs, Store, StoreError, View, Visitor};

use crate::bug::Bug;
use crate::disk::{SimDisk, Step};
use crate::rng::Rng;

/// First tag of consensus's records.
const OTHERS: u8 = 0xff;
/// Tags of the slots' replies (`namespace::keys`).
const SLOT_TAGS: [u8; 2] = [0x14, 0x15];
/// Tags of byte-range locks and their indexes.
const LOCK_TAGS: [u8; 4] = [0x24, 0x29, 0x2a, 0x2b];
/// Tag of counts of opens.
const USE_TAG: u8 = 0x26;
/// Tag of delegations.
const DELEGATION_TAG: u8 = 0x27;
/// Tag of the holders of write delegations.
const WRITE_DELEGATION_TAG: u8 = 0x2d;
/// Tag of layouts.
const LAYOUT_TAG: u8 = 0x25;
/// Tag of names in directories.
const NAME_TAG: u8 = 0x02;

/// Contents of a store at one moment. Copies are cheap.
#[derive(Clone, Default)]
pub struct StoreImage {
    pairs: OrdMap<Vec<u8>, Vec<u8>>,
    /// Hash of the pairs, independent of their order.
    sum: u64,
    bug: Option<Bug>,
}

impl StoreImage {
    /// Hash that two replicas at one index must have in common.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The contents as they are, with what a seeded bug hides.
    #[must_use]
    pub fn unhidden(&self) -> Self {
        Self { bug: None, ..self.clone() }
    }

    fn set(&mut self, key: &[u8], value: Option<&[u8]>) {
        let before = match value {
            Some(value) => self.pairs.insert(key.to_vec(), value.to_vec()),
            None => self.pairs.remove(key),
        };
        if key.first() != Some(&OTHERS) {
            for value in before.as_deref().into_iter().chain(value) {
                self.sum ^= hash(&(key, value));
            }
        }
    }

    /// True if a seeded bug hides this key.
    fn is_hidden(&self, key: &[u8]) -> bool {
        let Some(tag) = key.first() else { return false };
        match self.bug {
            Some(Bug::SlotsForget) => SLOT_TAGS.contains(tag),
            Some(Bug::LocksForget) => LOCK_TAGS.contains(tag),
            Some(Bug::SharesForget) => *tag == USE_TAG,
            Some(Bug::DelegationsForget) => *tag == DELEGATION_TAG,
            Some(Bug::WriteDelegationsForget) => *tag == WRITE_DELEGATION_TAG,
            Some(Bug::LayoutsForget) => *tag == LAYOUT_TAG,
            _ => false,
        }
    }
}

pub(crate) fn hash(of: &impl Hash) -> u64 {
    // A hasher with constant keys.
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

impl View for StoreImage {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.pairs.get(key).filter(|_| !self.is_hidden(key)).cloned())
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut Visitor<'_>) -> Result<(), StoreError> {
        if from >= to {
            return Ok(());
        }
        let range = self.pairs.range::<_, [u8]>((Bound::Included(from), Bound::Excluded(to)));
        for (key, value) in range.filter(|(key, _)| !self.is_hidden(key)) {
            if let ControlFlow::Break(()) = visit(key, value) {
                break;
            }
        }
        Ok(())
    }
}

impl Edit for StoreImage {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.set(key, Some(value));
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.set(key, None);
        Ok(())
    }
}

struct State {
    now: StoreImage,
    flushed: StoreImage,
    rng: Rng,
}

/// Observer of batches, called with the contents after each.
pub type BatchObserver = Box<dyn Fn(&StoreImage) + Send + Sync>;

/// Store of one member, on its machine's disk.
pub struct SimStore {
    disk: SimDisk,
    state: Mutex<State>,
    observer: BatchObserver,
    /// Seeded bug: one put in this many is lost.
    loses: Option<u64>,
}

impl SimStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new(
        disk: SimDisk,
        rng: Rng,
        observer: BatchObserver,
        bug: Option<Bug>,
        loses: Option<u64>,
    ) -> Self {
        let now = StoreImage { bug, ..StoreImage::default() };
        let state = State { flushed: now.clone(), now, rng };
        Self { disk, state: Mutex::new(state), observer, loses }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Current contents.
    #[must_use]
    pub fn now(&self) -> StoreImage {
        self.state().now.clone()
    }

    /// Returns to the last flush, after a power failure.
    pub fn restart(&self) {
        let mut state = self.state();
        state.now = state.flushed.clone();
    }

    /// Flushes the store in one atomic step, which a power failure may prevent or not.
    fn flush(&self, mut state: MutexGuard<'_, State>) -> Result<(), StoreError> {
        let step = self.disk.step();
        let is_there = match step {
            Step::Done => true,
            Step::CutOff => state.rng.below(2) == 0,
            Step::Dead => false,
        };
        if is_there {
            state.flushed = state.now.clone();
        }
        match step {
            Step::Done => Ok(()),
            Step::CutOff | Step::Dead => Err(StoreError::failed("flush", "the power is gone")),
        }
    }
}

impl Store for SimStore {
    fn snapshot(&self) -> Result<Box<dyn View + Send + Sync>, StoreError> {
        Ok(Box::new(self.now()))
    }

    fn batch(
        &self,
        durability: Durability,
        edit: &mut dyn FnMut(&mut dyn Edit) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut state = self.state();
        let mut batch = Lossy { held: state.now.clone(), loses: self.loses };
        edit(&mut batch)?;
        state.now = batch.held;
        (self.observer)(&state.now);
        match durability {
            Durability::Deferred => Ok(()),
            Durability::Immediate => self.flush(state),
        }
    }

    fn replace(&self, pairs: &mut Pairs<'_>) -> Result<(), StoreError> {
        let mut state = self.state();
        let mut held = StoreImage { bug: state.now.bug, ..StoreImage::default() };
        for pair in pairs {
            let (key, value) = pair?;
            held.set(&key, Some(&value));
        }
        state.now = held;
        self.flush(state)
    }
}

/// Batch in progress.
struct Lossy {
    held: StoreImage,
    loses: Option<u64>,
}

impl View for Lossy {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.held.get(key)
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut Visitor<'_>) -> Result<(), StoreError> {
        self.held.scan(from, to, visit)
    }
}

impl Edit for Lossy {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let lost = key.first() == Some(&NAME_TAG)
            && self.loses.is_some_and(|one_in| hash(&key).is_multiple_of(one_in));
        if lost { Ok(()) } else { self.held.put(key, value) }
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.held.delete(key)
    }
}
