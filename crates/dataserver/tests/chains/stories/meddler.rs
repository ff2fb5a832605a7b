//! COMMITs of the writers' objects by another caller, some with an epoch that a raise has overtaken. They change nothing
//! that a writer reads.

use std::sync::atomic::Ordering;
use std::time::Duration;

use wire::data::{Procedure, Status, commit};

use super::writer::Shared;
use crate::caller::Caller;

/// Pause between two calls, at most, in ms.
const PAUSE_MAX: u64 = 150;

pub struct Meddler {
    shared: Shared,
    caller: Caller,
}

impl Meddler {
    pub fn new(shared: &Shared, seed: u64) -> Self {
        Self { shared: shared.clone(), caller: Caller::new(&shared.members, seed) }
    }

    /// Works until the story ends.
    pub async fn work(mut self) {
        while !self.shared.ends.load(Ordering::SeqCst) {
            self.shared.rest_if_told().await;
            tokio::time::sleep(Duration::from_millis(self.caller.below(PAUSE_MAX))).await;
            let Some(inode) = self.some_object() else { continue };
            self.commit(inode).await;
        }
    }

    fn some_object(&self) -> Option<u64> {
        let model = self.shared.model.lock();
        let inodes: Vec<_> = model.iter().filter(|(_, object)| !object.is_removed).map(|(i, _)| *i).collect();
        inodes.get(self.caller.below(inodes.len().max(1) as u64) as usize).copied()
    }

    async fn commit(&mut self, inode: u64) {
        let epoch = self.shared.begin_sync(inode);
        let epoch = epoch.saturating_sub(self.caller.below(2) as u32);
        let args = |handle| commit::Args { handle };
        let done = self.caller.try_call::<commit::ResOk, _>((inode, epoch), Procedure::Commit, args).await;
        self.shared.end_sync(inode, done.unanswered > 0);
        // The object may have been removed or raised meanwhile.
        let result = done.result.map(drop);
        assert!(
            matches!(result, Ok(()) | Err(Status::Stale | Status::StaleEpoch)),
            "object {inode}: {result:?}"
        );
    }
}
