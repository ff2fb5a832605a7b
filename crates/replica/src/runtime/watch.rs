//! Watched value, as tokio's `watch`, whose waiters are woken in the order in which they came. tokio wakes
//! them in a random order whose seed cannot be set, so a simulation would not be deterministic.

use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use openraft::async_runtime::watch;
use openraft::{OptionalSend, OptionalSync};
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
#[derive(Debug)]
pub(crate) struct Closed;

/// Creates a watched value.
pub(crate) fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared {
        value: RwLock::new(value),
        version: AtomicU64::new(0),
        senders: AtomicUsize::new(1),
        receivers: AtomicUsize::new(1),
        closed: AtomicBool::new(false),
        changed: Notify::new(),
    });
    (Sender(Arc::clone(&shared)), Receiver { shared, seen: 0 })
}

impl<T> Sender<T> {
    pub(crate) fn set(&self, value: T) {
        self.set_if(|present| {
            *present = value;
            true
        });
    }

    /// Wakes the waiters if `modify` returns true.
    fn set_if(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
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

    pub(crate) fn get(&self) -> Ref<'_, T> {
        self.0.read()
    }
}

impl<T> Sender<T> {
    /// Creates another receiver.
    pub(crate) fn subscribe(&self) -> Receiver<T> {
        self.0.receivers.fetch_add(1, Ordering::Relaxed);
        Receiver { shared: Arc::clone(&self.0), seen: self.0.version.load(Ordering::Acquire) }
    }
}

impl<T> Receiver<T> {
    pub(crate) fn get(&self) -> Ref<'_, T> {
        self.shared.read()
    }

    /// The value, which [`Receiver::changed`] does not report again.
    pub(crate) fn get_and_mark(&mut self) -> Ref<'_, T> {
        let value = self.shared.read();
        self.seen = self.shared.version.load(Ordering::Acquire);
        value
    }

    /// True if no sender exists any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }

    /// Makes [`Receiver::changed`] report the value again.
    pub(crate) fn mark_changed(&mut self) {
        self.seen = u64::MAX;
    }

    /// Returns when the value has changed since the last report.
    pub(crate) async fn changed(&mut self) -> Result<(), Closed> {
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

    /// Returns when `condition` holds for the value.
    pub(crate) async fn wait_for(&mut self, condition: impl Fn(&T) -> bool) -> Result<Ref<'_, T>, Closed> {
        while !condition(&self.get_and_mark()) {
            self.changed().await?;
        }
        Ok(self.shared.read())
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

/// openraft's watch.
pub struct Watch;

impl watch::Watch for Watch {
    type Sender<T: OptionalSend + OptionalSync> = Sender<T>;
    type Receiver<T: OptionalSend + OptionalSync> = Receiver<T>;
    type Ref<'a, T: OptionalSend + 'a> = Ref<'a, T>;

    fn channel<T: OptionalSend + OptionalSync>(init: T) -> (Sender<T>, Receiver<T>) {
        channel(init)
    }
}

impl<T: OptionalSend + OptionalSync> watch::WatchSender<Watch, T> for Sender<T> {
    fn send(&self, value: T) -> Result<(), watch::SendError<T>> {
        if self.0.receivers.load(Ordering::Relaxed) == 0 {
            return Err(watch::SendError(value));
        }
        self.set(value);
        Ok(())
    }

    fn send_if_modified<F: FnOnce(&mut T) -> bool>(&self, modify: F) -> bool {
        self.set_if(modify)
    }

    fn borrow_watched(&self) -> Ref<'_, T> {
        self.get()
    }

    fn subscribe(&self) -> Receiver<T> {
        self.subscribe()
    }
}

impl<T: OptionalSend + OptionalSync> watch::WatchReceiver<Watch, T> for Receiver<T> {
    async fn changed(&mut self) -> Result<(), watch::RecvError> {
        Receiver::changed(self).await.map_err(|Closed| watch::RecvError(()))
    }

    fn borrow_watched(&self) -> Ref<'_, T> {
        self.get()
    }

    fn borrow_and_update(&mut self) -> Ref<'_, T> {
        self.get_and_mark()
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
