//! Ctrl-C during a run: the first one ends it with a partial result, the second one at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use command_line::Failure;
use command_line::signals::Signals;

/// Whether SIGINT or SIGTERM came.
#[derive(Debug, Clone)]
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on neither kills the process, until one has come.
    pub(super) fn catch() -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let is_set = Arc::new(AtomicBool::new(false));
        let (sets, (caught, whether)) = (Arc::clone(&is_set), mpsc::channel());
        // A run is done by plain threads: signals have one of their own.
        let waits = async move {
            let signals = match Signals::catch() {
                Ok(signals) => signals,
                Err(failure) => return drop(caught.send(Err(failure))),
            };
            let _ = caught.send(Ok(()));
            signals.stop().await;
            sets.store(true, Ordering::Relaxed);
            std::future::pending().await
        };
        thread::Builder::new().name("signals".into()).spawn(move || runtime.block_on(waits))?;
        whether.recv()??;
        Ok(Self(is_set))
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
