//! Runs a server until it is told to stop.

use std::future::Future;
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::failure::{Failure, INTERRUPTED};

/// SIGTERM and SIGINT, from before anything was started; and the parent's end, for what is a part of another heorot.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    parent: Option<oneshot::Receiver<()>>,
}

impl Signals {
    /// From now on neither signal kills the process.
    pub(crate) fn catch() -> Result<Self, Failure> {
        let catch = |kind| signal(kind).map_err(|e| Failure::new(format!("cannot catch signals: {e}")));
        let (terminate, interrupt) = (catch(SignalKind::terminate())?, catch(SignalKind::interrupt())?);
        Ok(Self { terminate, interrupt, parent: None })
    }

    /// The same; `is_part`: standard input ends with the parent.
    pub(crate) fn catch_as(is_part: bool) -> Result<Self, Failure> {
        let mut signals = Self::catch()?;
        if is_part {
            let (tell, told) = oneshot::channel();
            // A thread that nobody waits for: it reads until the parent is gone.
            std::thread::spawn(move || {
                let _ = io::copy(&mut io::stdin(), &mut io::sink());
                let _ = tell.send(());
            });
            signals.parent = Some(told);
        }
        Ok(signals)
    }

    /// Waits for the first one. The second one ends the process at once.
    pub(crate) async fn stop(mut self) {
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

/// SIGHUP, which no longer kills the process: "read your configuration again".
pub(crate) struct Hangups(Signal);

impl Hangups {
    /// From now on.
    pub(crate) fn catch() -> Result<Self, Failure> {
        signal(SignalKind::hangup()).map(Self).map_err(|e| Failure::new(format!("cannot catch signals: {e}")))
    }

    /// Waits for the next one; those that came together are one.
    pub(crate) async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending().await
        }
    }
}

/// Runs a server to its end.
pub(crate) fn run(server: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    raise_open_files();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Failure::new(format!("cannot start threads: {e}")))?;
    let outcome = runtime.block_on(server);
    // What still runs serves connections that are closed.
    runtime.shutdown_background();
    outcome
}

/// Each connection and each open object is a file; 1024, the usual soft limit, is soon reached. The hard limit is what
/// the administrator allows.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::debug!(%error, "limit of open files not raised");
    }
}
