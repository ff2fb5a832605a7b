//! Signals that stop a process or make it reload its configuration.

use std::future::Future;
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::{Failure, INTERRUPTED};

/// SIGTERM and SIGINT, and for a child of another heorot the end of its parent.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    parent: Option<oneshot::Receiver<()>>,
}

impl Signals {
    /// Catches both signals: from now on neither kills the process.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn catch() -> Result<Self, Failure> {
        let catch = |kind| signal(kind).map_err(|e| Failure::new(format!("cannot catch signals: {e}")));
        let (terminate, interrupt) = (catch(SignalKind::terminate())?, catch(SignalKind::interrupt())?);
        Ok(Self { terminate, interrupt, parent: None })
    }

    /// Catches both signals, and if `is_part` the end of the parent, which is the end of standard input.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn catch_as(is_part: bool) -> Result<Self, Failure> {
        let mut signals = Self::catch()?;
        if is_part {
            let (tell, told) = oneshot::channel();
            // This thread is never joined: it reads until the parent is gone.
            std::thread::spawn(move || {
                let _ = io::copy(&mut io::stdin(), &mut io::sink());
                let _ = tell.send(());
            });
            signals.parent = Some(told);
        }
        Ok(signals)
    }

    /// Waits for the first signal. The second one ends the process at once.
    pub async fn stop(mut self) {
        let name = self.next().await;
        tracing::info!(signal = name, "stopping; a second signal stops at once");
        tokio::spawn(async move {
            self.next().await;
            std::process::exit(INTERRUPTED.into());
        });
    }

    async fn next(&mut self) -> &'static str {
        let parent = async {
            match self.parent.as_mut() {
                Some(parent) => drop(parent.await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            () = parent => {
                self.parent = None;
                "the end of its parent"
            }
        }
    }
}

/// SIGHUP: the request to reload the configuration.
pub struct Hangups(Signal);

impl Hangups {
    /// Catches SIGHUP: from now on it does not kill the process.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn catch() -> Result<Self, Failure> {
        signal(SignalKind::hangup()).map(Self).map_err(|e| Failure::new(format!("cannot catch signals: {e}")))
    }

    /// Waits for the next SIGHUP; several that arrive together count as one.
    pub async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending().await
        }
    }
}

/// Runs a server until it stops, on a runtime of its own.
///
/// # Errors
/// Error of the server, or of starting its threads.
pub fn run(server: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Failure::new(format!("cannot start threads: {e}")))?;
    let outcome = runtime.block_on(server);
    // Tasks that still run serve closed connections.
    runtime.shutdown_background();
    outcome
}
