//! Recall of idle layouts: layouts to write that their holders do not use while other clients read the file's
//! attributes. Each GETATTR then costs a STAT call to the data servers ([`crate::data::unsettled`]). After
//! the recall the file is settled. A holder that writes again gets a new layout in one round trip.
//!
//! ```text
//! STAT ─▶ no news ─▶ LOOKS_UNTIL_RECALL in a row ─▶ CB_LAYOUTRECALL ─▶ settled: no STAT
//!      └▶ news: the holder writes ─▶ counted from 0
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use namespace::{InodeId, IoMode, Unsettled, read};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::errors::FileError;
use crate::state::ClientState;
use crate::state::recall::Holders;

/// STAT calls without news before the layouts of a file are recalled. A recall and a new layout cost three
/// messages and two commands, about as much as 16 STAT calls. With twice that number, a holder that writes
/// now and then loses at most a third.
const LOOKS_UNTIL_RECALL: u32 = 32;
/// Maximum of files with a count, 40 bytes each. Beyond it all counts begin again at 0.
const FILES_MAX: usize = 4096;

/// Counts of STAT calls for unsettled files that brought no news.
#[derive(Default)]
pub(crate) struct IdleLayouts {
    looks: Mutex<BTreeMap<InodeId, Looks>>,
    /// Files with layouts to write that are to be recalled.
    due: Mutex<BTreeSet<InodeId>>,
    is_due: Notify,
}

/// Count of STAT calls without news for one file, since a grant or a write.
struct Looks {
    mark: Unsettled,
    count: u32,
}

impl IdleLayouts {
    /// Counts a STAT call that found no data beyond `mark`.
    pub(crate) fn note_look(&self, inode: InodeId, mark: Unsettled) {
        let mut looks = self.looks.lock();
        if looks.len() >= FILES_MAX && !looks.contains_key(&inode) {
            looks.clear();
        }
        let of_file = looks.entry(inode).or_insert(Looks { mark, count: 0 });
        if of_file.mark != mark {
            *of_file = Looks { mark, count: 0 };
        }
        of_file.count += 1;
        if of_file.count >= LOOKS_UNTIL_RECALL {
            looks.remove(&inode);
            let mut due = self.due.lock();
            if due.len() < FILES_MAX {
                due.insert(inode);
            }
            self.is_due.notify_one();
        }
    }
}

impl ClientState {
    /// Recalls layouts that are idle while other clients read the file's attributes. Never returns.
    pub(crate) async fn recall_idle_layouts(self: Arc<Self>) {
        loop {
            self.idle_layouts.is_due.notified().await;
            loop {
                let Some(inode) = self.idle_layouts.due.lock().pop_first() else { break };
                match self.recall_if_idle(inode).await {
                    Ok(()) => {}
                    Err(status) => {
                        tracing::debug!(?status, inode = inode.0, "a holder keeps its idle layout")
                    }
                }
            }
        }
    }

    async fn recall_if_idle(&self, id: InodeId) -> Result<(), FileError> {
        let inode = self.machine.inode(&*self.machine.view()?, id)?;
        if self.is_writer_lapsed(id)? {
            return Ok(());
        }
        tracing::debug!(inode = id.0, "idle layouts to write are called back");
        self.recall_layouts(id, inode.generation, Holders::Writers).await
    }

    /// True if a client with a layout to write has lapsed. A recall would expire this client, which keeps its
    /// opens and locks by courtesy until another client needs them.
    fn is_writer_lapsed(&self, inode: InodeId) -> Result<bool, FileError> {
        let view = self.machine.view()?;
        for (client, _, mode) in read::layouts(&*view, inode)? {
            let record = read::client(&*view, client)?;
            if mode == IoMode::ReadWrite && record.is_none_or(|record| record.lapsed.is_some()) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(idle: &IdleLayouts) -> Vec<u64> {
        idle.due.lock().iter().map(|inode| inode.0).collect()
    }

    #[test]
    fn only_looks_in_a_row_without_news_count() {
        let idle = IdleLayouts::default();
        let mark = |version| Unsettled { grant: 1, version, times_set: 0 };
        for version in [1, 2] {
            for _ in 1..LOOKS_UNTIL_RECALL {
                idle.note_look(InodeId(7), mark(version));
            }
        }
        assert_eq!(due(&idle), [0; 0]);
        idle.note_look(InodeId(7), mark(2));
        assert_eq!(due(&idle), [7]);
        assert!(idle.looks.lock().is_empty());
    }

    #[test]
    fn looks_at_many_files_keep_a_bounded_number_of_counts() {
        let idle = IdleLayouts::default();
        for inode in 0..3 * FILES_MAX as u64 {
            idle.note_look(InodeId(inode), Unsettled { grant: 1, version: 1, times_set: 0 });
        }
        assert!(idle.looks.lock().len() <= FILES_MAX);
    }
}
