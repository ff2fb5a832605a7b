//! Locks that are taken whatever happened before.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// `Mutex::lock` without an error. The standard library marks a lock as poisoned when a thread panics while
/// it holds it, and skipping what it guards would be worse than going on: a lease, a delegation or an event
/// of another server would be missed in silence. A server's process ends with the first panic in it, and
/// begins anew; until then, and in tests, what is guarded is as consistent as at any other moment, because no
/// step of ours leaves it half changed.
pub trait Locked<T> {
    /// Waits for the lock.
    fn locked(&self) -> MutexGuard<'_, T>;
}

impl<T> Locked<T> for Mutex<T> {
    fn locked(&self) -> MutexGuard<'_, T> {
        self.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The same for `RwLock`.
pub trait RwLocked<T> {
    /// Waits until no thread writes.
    fn reading(&self) -> RwLockReadGuard<'_, T>;
    /// Waits until no thread reads or writes.
    fn writing(&self) -> RwLockWriteGuard<'_, T>;
}

impl<T> RwLocked<T> for RwLock<T> {
    fn reading(&self) -> RwLockReadGuard<'_, T> {
        self.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn writing(&self) -> RwLockWriteGuard<'_, T> {
        self.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_taken_after_a_panic_of_its_holder() {
        let (mutex, rw) = (Mutex::new(1), RwLock::new(1));
        let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let (mut one, mut other) = (mutex.lock().unwrap(), rw.write().unwrap());
            (*one, *other) = (2, 2);
            panic!("a test's");
        }));
        assert!(panics.is_err() && mutex.lock().is_err() && rw.read().is_err());
        assert_eq!((*mutex.locked(), *rw.reading()), (2, 2));
        *rw.writing() = 3;
        assert_eq!(*rw.reading(), 3);
    }
}
