//! Ends of sessions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Count of ended sessions, for callers that must not miss an end. A follower of events may miss one for a
/// moment.
#[derive(Default)]
pub(crate) struct Ends(OnceLock<Arc<AtomicU64>>);

impl Ends {
    /// Returns the count, which changes whenever sessions may have ended. Without a follower, only this
    /// metaserver ends sessions.
    pub(crate) fn count(&self) -> u64 {
        self.0.get().map_or(0, |ends| ends.load(Ordering::Acquire))
    }

    /// Follows the count that the replica's events keep.
    pub(crate) fn follow(&self, ends: Arc<AtomicU64>) {
        let _ = self.0.set(ends);
    }
}
