//! Promotion of clones, by the leader: the objects that they share with their origins are copied, file by file.
//!
//! ```text
//! marks in the state machine ─▶ one after the other: layouts back ─▶ copies (own_objects.rs) ─▶ the mark is gone
//! ```
//!
//! A file whose copy fails, since a data server is away or full, is tried again with the next round.

use std::sync::Arc;
use std::time::Duration;

use host::Repeated;
use namespace::{InodeId, read};

use crate::data::Data;
use crate::errors::FileError;

/// Interval of the leader's search for files to copy.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Files that are looked up at a time.
const FILES_AT_ONCE: usize = 64;

/// Files whose copies failed.
static FAILURES: Repeated = Repeated::new();

impl Data {
    /// Copies objects that promoted clones share with their origins. Never returns.
    pub(crate) async fn promote_clones(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let mut from = InodeId(0);
            while self.machine.replica.leads() {
                match self.copy_some_of_clones(from).await {
                    Ok(Some(last)) => from = InodeId(last.0 + 1),
                    Ok(None) => break,
                    Err(error) => {
                        tracing::debug!(?error, "clones are not promoted now");
                        break;
                    }
                }
            }
        }
    }

    /// Copies the objects of some files from `from` on. Returns the last of them; none: there are no more.
    async fn copy_some_of_clones(self: &Arc<Self>, from: InodeId) -> Result<Option<InodeId>, FileError> {
        let some = read::clones_to_copy(&*self.machine.view()?, from, FILES_AT_ONCE)?;
        for file in some.iter().copied() {
            // A file that was removed meanwhile has no mark any more.
            if let Err(error) = self.columns_at_leader(file).await
                && let Some(count) = FAILURES.count()
            {
                tracing::warn!(file = file.0, ?error, count, "the objects of a clone's file were not copied");
            }
        }
        Ok(some.last().copied())
    }
}
