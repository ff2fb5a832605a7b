//! Ctrl-C during a run: the first one ends the run with a partial result, the second one ends the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use command_line::Failure;
use command_line::signals::Signals;

/// Flag: whether SIGINT or SIGTERM arrived.
#[derive(Debug, Clone)]
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Catches both signals: the first one no longer kills the process.
    pub(super) fn catch() -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let is_set = Arc::new(AtomicBool::new(false));
        let (sets, (caught, whether)) = (Arc::clone(&is_set), mpsc::channel());
        // A thread of its own for signals, since a run uses plain threads.
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
