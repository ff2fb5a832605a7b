//! What a data server runs on: a machine, or a simulation of one.

use std::sync::Arc;
use std::time::Duration;

use host::{Clock, Entropy};
use nfs::{StreamNetwork, TcpNetwork};
use tokio::task::JoinError;

use crate::disk::{Disk, SystemDisk};

/// Disk, clock, network and threads of a data server.
#[derive(Clone)]
pub struct Environment {
    /// File I/O of its targets.
    pub disk: Arc<dyn Disk>,
    /// Its clock.
    pub clock: Arc<dyn Clock>,
    /// Its random numbers.
    pub entropy: Arc<dyn Entropy>,
    /// Its way to other data servers.
    pub network: Arc<dyn StreamNetwork>,
    /// The place of work that blocks.
    pub blocking: Blocking,
}

impl Environment {
    /// The machine: its disk, its network, threads.
    #[must_use]
    pub fn of_machine(clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        Self {
            disk: Arc::new(SystemDisk),
            clock,
            entropy,
            network: Arc::new(TcpNetwork),
            blocking: Blocking::default(),
        }
    }
}

/// Time that a simulated disk takes for one piece of work.
pub type DiskTime = Arc<dyn Fn() -> Duration + Send + Sync>;

/// Place of work that blocks. It is carried out to its end also if its caller stops waiting.
#[derive(Clone, Default)]
pub enum Blocking {
    /// On threads of their own.
    #[default]
    OnThreads,
    /// In a task, after a time: for simulations, in which nothing blocks and all is done by one thread.
    InTasks(DiskTime),
}

impl Blocking {
    /// Does `work`.
    ///
    /// # Errors
    /// [`JoinError`] if it panics.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        #[allow(clippy::disallowed_methods)] // no simulation
        match self {
            Self::OnThreads => tokio::task::spawn_blocking(work).await,
            Self::InTasks(time) => {
                let time = time();
                let task = tokio::spawn(async move {
                    tokio::time::sleep(time).await;
                    work()
                });
                task.await
            }
        }
    }

    /// Does `work` later; nothing waits for it.
    pub(crate) fn begin(&self, work: impl FnOnce() + Send + 'static) {
        #[allow(clippy::disallowed_methods)] // no simulation
        match self {
            Self::OnThreads => drop(tokio::task::spawn_blocking(work)),
            Self::InTasks(_) => {
                let blocking = self.clone();
                drop(tokio::spawn(async move { blocking.run(work).await }));
            }
        }
    }

    /// Blocks for this time, where that holds nothing else up.
    pub(crate) fn pause(&self, time: Duration) {
        if matches!(self, Self::OnThreads) {
            std::thread::sleep(time);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_in_tasks_takes_its_time_and_is_done_without_its_caller() {
        let began = tokio::time::Instant::now();
        let blocking = Blocking::InTasks(Arc::new(|| Duration::from_millis(7)));
        assert_eq!(blocking.run(|| 3).await.unwrap(), 3);
        assert_eq!(began.elapsed(), Duration::from_millis(7));
        let done = Arc::new(AtomicU64::new(0));
        let work = {
            let done = Arc::clone(&done);
            move || done.store(1, Ordering::Relaxed)
        };
        let left = tokio::time::timeout(Duration::from_millis(1), blocking.run(work)).await;
        assert!(left.is_err() && done.load(Ordering::Relaxed) == 0);
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(done.load(Ordering::Relaxed), 1);
    }
}
