//! Watched value, as tokio's `watch`, whose waiters are woken in the order in which they came. tokio wakes
//! them in a random order whose seed cannot be set, so a simulation would not be deterministic: clippy.toml
//! refuses tokio's.

use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::{RwLock, RwLockReadGuard};
use tokio::sync::Notify;

struct Shared<T> {
    value: RwLock<T>,
    /// Number of changes.
    version: AtomicU64,
    senders: AtomicUsize,
    receivers: AtomicUsize,
    closed: AtomicBool,
    changed: Notify,
}

impl<T> Shared<T> {
    fn read(&self) -> Ref<'_, T> {
        Ref(self.value.read())
    }
}

/// Reference to the value; a setter waits while it exists.
pub struct Ref<'a, T>(RwLockReadGuard<'a, T>);

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Setter of the value.
pub struct Sender<T>(Arc<Shared<T>>);

/// Watcher of the value.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    seen: u64,
}

/// No sender exists any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed;

/// Creates a watched value.
#[must_use]
pub fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::new(value);
    let receiver = sender.subscribe();
    (sender, receiver)
}

impl<T> Sender<T> {
    /// Creates a watched value without receivers.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self(Arc::new(Shared {
            value: RwLock::new(value),
            version: AtomicU64::new(0),
            senders: AtomicUsize::new(1),
            receivers: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            changed: Notify::new(),
        }))
    }

    /// Sets the value, and wakes the waiters.
    pub fn set(&self, value: T) {
        self.set_if(|present| {
            *present = value;
            true
        });
    }

    /// Changes the value, and wakes the waiters if `modify` returns true. Returns what it returned.
    pub fn set_if(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
        {
            let mut value = self.0.value.write();
            if !modify(&mut value) {
                return false;
            }
            self.0.version.fetch_add(1, Ordering::Release);
        }
        self.0.changed.notify_waiters();
        true
    }

    /// The value.
    #[must_use]
    pub fn get(&self) -> Ref<'_, T> {
        self.0.read()
    }

    /// True if there is a receiver.
    #[must_use]
    pub fn has_receivers(&self) -> bool {
        self.0.receivers.load(Ordering::Relaxed) != 0
    }

    /// Creates another receiver.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        self.0.receivers.fetch_add(1, Ordering::Relaxed);
        Receiver { shared: Arc::clone(&self.0), seen: self.0.version.load(Ordering::Acquire) }
    }
}

impl<T> Receiver<T> {
    /// The value.
    #[must_use]
    pub fn get(&self) -> Ref<'_, T> {
        self.shared.read()
    }

    /// The value, which [`Receiver::changed`] does not report again.
    #[must_use]
    pub fn get_and_mark(&mut self) -> Ref<'_, T> {
        let value = self.shared.read();
        self.seen = self.shared.version.load(Ordering::Acquire);
        value
    }

    /// True if no sender exists any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }

    /// Makes [`Receiver::changed`] report the value again.
    pub fn mark_changed(&mut self) {
        self.seen = u64::MAX;
    }

    /// Returns when the value has changed since the last report.
    ///
    /// # Errors
    /// [`Closed`].
    pub async fn changed(&mut self) -> Result<(), Closed> {
        loop {
            let mut set = pin!(self.shared.changed.notified());
            set.as_mut().enable();
            let version = self.shared.version.load(Ordering::Acquire);
            if version != self.seen {
                self.seen = version;
                return Ok(());
            }
            if self.shared.closed.load(Ordering::Acquire) {
                return Err(Closed);
            }
            set.await;
        }
    }

    /// Returns when `condition` holds for the value. The value that it returns may be a later one.
    ///
    /// # Errors
    /// [`Closed`].
    pub async fn wait_for(&mut self, condition: impl Fn(&T) -> bool) -> Result<Ref<'_, T>, Closed> {
        while !condition(&self.get_and_mark()) {
            self.changed().await?;
        }
        Ok(self.shared.read())
    }
}

impl<T: Default> Default for Sender<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.senders.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.0.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.closed.store(true, Ordering::Release);
            self.0.changed.notify_waiters();
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.shared.receivers.fetch_add(1, Ordering::Relaxed);
        Self { shared: Arc::clone(&self.shared), seen: self.seen }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.shared.receivers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[tokio::test]
    async fn who_waits_is_woken_in_turn_and_told_when_nobody_sets_it_any_more() {
        let (sender, receiver) = channel(0);
        let woken = Arc::new(Mutex::new(vec![]));
        let wait = |n: u64| {
            let (mut receiver, woken) = (receiver.clone(), Arc::clone(&woken));
            tokio::spawn(async move {
                let found = receiver.wait_for(|value| *value >= 7).await.map(|value| *value);
                woken.lock().push((n, found.ok()));
                receiver.changed().await.is_err()
            })
        };
        // A few waiters: all of them have run when this task runs again.
        let waiting: Vec<_> = (0..20).map(wait).collect();
        tokio::task::yield_now().await;
        sender.set(3);
        tokio::task::yield_now().await;
        assert!(woken.lock().is_empty());
        sender.set(7);
        tokio::task::yield_now().await;
        assert_eq!(*woken.lock(), (0..20).map(|n| (n, Some(7))).collect::<Vec<_>>());
        drop(sender);
        for task in waiting {
            assert!(task.await.unwrap(), "closed");
        }
    }
}
