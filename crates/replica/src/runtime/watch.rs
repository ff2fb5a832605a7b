//! openraft's watch: [`host::watch`].

use host::watch::{Closed, Receiver, Ref, Sender, channel};
use openraft::async_runtime::watch;
use openraft::{OptionalSend, OptionalSync};

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
        if !self.has_receivers() {
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
