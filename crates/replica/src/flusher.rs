//! Brings the store to disk while the machine goes on, and has a log segment ready before it is needed.
//!
//! Both take milliseconds, many times what a command takes, so they have a thread of their own. The machine asks for
//! one flush at a time, and hears how far the store is then.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;

use store::{Durability, Store};

use crate::log;

/// What to do.
struct Flush {
    /// The last command applied to the store when this was asked for.
    applied: u64,
    /// The segment in use is half full, or more.
    spare: bool,
}

/// The thread, and what it was asked to do.
pub(crate) struct Flusher {
    ask: SyncSender<Flush>,
    done: Receiver<Result<u64, String>>,
    busy: bool,
    thread: JoinHandle<()>,
}

impl Flusher {
    /// Starts the thread, for `store` and the log in the directory `log`.
    pub(crate) fn start(store: Arc<dyn Store>, log: PathBuf) -> std::io::Result<Self> {
        let (ask, asked) = sync_channel::<Flush>(1);
        let (tell, done) = sync_channel(1);
        let work = move || {
            for Flush { applied, spare } in asked {
                let outcome = store.batch(Durability::Immediate, &mut |_| Ok(())).map_err(|e| e.to_string());
                if spare && let Err(error) = log::keep_spare(&log) {
                    // The next segment is then made when it is needed, and what fails there is said there.
                    tracing::debug!(%error, "no spare log segment");
                }
                if tell.send(outcome.map(|()| applied)).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("store-flush".into()).spawn(work)?;
        Ok(Self { ask, done, busy: false, thread })
    }

    /// Whether a flush was begun and not heard of.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Begins a flush; `applied` is in the store. Only when not busy.
    pub(crate) fn begin(&mut self, applied: u64, spare: bool) {
        // The thread ends only with this handle, or by a panic, which the next look finds.
        let _ = self.ask.send(Flush { applied, spare });
        self.busy = true;
    }

    /// The outcome of a flush that has ended: all up to this index is on disk.
    pub(crate) fn ended(&mut self) -> Option<Result<u64, String>> {
        let outcome = match self.done.try_recv() {
            Ok(outcome) => outcome,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Err("the thread that flushes the store ended".into()),
        };
        self.busy = false;
        Some(outcome)
    }

    /// Waits for a flush that was begun, and ends the thread.
    pub(crate) fn stop(self) -> Result<(), String> {
        let Self { ask, done, busy, thread } = self;
        drop(ask);
        let outcome = if busy { done.recv().map_err(|e| e.to_string())? } else { Ok(0) };
        let _ = thread.join();
        outcome.map(drop)
    }
}
