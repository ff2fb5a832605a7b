//! Promotion of clones, by the leader: the objects that they share with their origins are copied, file by file.
//!
//! ```text
//! marks in the state machine ─▶ one after the other: layouts back ─▶ copies (own_objects.rs) ─▶ the mark is gone
//! ```
//!
//! A file whose copy fails, since a data server is away or full, is tried again with the next round. After a failure the
//! pause between rounds grows: a copy that fills a disk is a lot of work for nothing.

use std::sync::Arc;
use std::time::Duration;

use host::Repeated;
use namespace::{InodeId, read};

use crate::data::Data;
use crate::errors::FileError;

/// Interval of the leader's search for files to copy.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Longest interval, while copies fail.
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// Waits for one file, each of some seconds: a copy of 100 GB, or a lease, takes minutes.
const WAITS_MAX: usize = 600;
/// Files that are looked up at a time.
const FILES_AT_ONCE: usize = 64;

/// Files whose copies failed.
static FAILURES: Repeated = Repeated::new();

impl Data {
    /// Copies objects that promoted clones share with their origins. Never returns.
    pub(crate) async fn promote_clones(self: Arc<Self>) {
        let mut pause = LOOK_EVERY;
        loop {
            tokio::time::sleep(pause).await;
            let (mut from, mut failed) = (InodeId(0), 0);
            while self.machine.replica.leads() {
                match self.copy_some_of_clones(from, &mut failed).await {
                    Ok(Some(last)) => from = InodeId(last.0 + 1),
                    Ok(None) => break,
                    Err(error) => {
                        tracing::debug!(?error, "clones are not promoted now");
                        break;
                    }
                }
            }
            pause = if failed > 0 { (pause * 2).min(PAUSE_MAX) } else { LOOK_EVERY };
        }
    }

    /// Copies the objects of some files from `from` on. Returns the last of them; none: there are no more.
    /// Counts those that failed.
    async fn copy_some_of_clones(
        self: &Arc<Self>,
        from: InodeId,
        failed: &mut u32,
    ) -> Result<Option<InodeId>, FileError> {
        let some = read::clones_to_copy(&*self.machine.view()?, from, FILES_AT_ONCE)?;
        for file in some.iter().copied() {
            match self.copy_of_clone(file).await {
                // It was removed meanwhile, and so was its mark.
                Ok(()) | Err(FileError::Stale) => {}
                Err(error) => {
                    *failed += 1;
                    if let Some(count) = FAILURES.count() {
                        tracing::warn!(
                            file = file.0,
                            ?error,
                            count,
                            "the objects of a clone's file were not copied"
                        );
                    }
                }
            }
        }
        Ok(some.last().copied())
    }

    /// Copies the objects of one file, however long that takes: a request would wait for some seconds.
    async fn copy_of_clone(self: &Arc<Self>, file: InodeId) -> Result<(), FileError> {
        for _ in 0..WAITS_MAX {
            match self.columns_at_leader(file).await {
                Err(FileError::Delay) if self.machine.replica.leads() => tokio::time::sleep(LOOK_EVERY).await,
                outcome => return outcome,
            }
        }
        Err(FileError::Delay)
    }
}
