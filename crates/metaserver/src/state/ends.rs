//! Ends of sessions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Count of ended sessions, for callers that must not miss an end, as a follower of events may for a moment.
#[derive(Default)]
pub(crate) struct Ends(OnceLock<Arc<AtomicU64>>);

impl Ends {
    /// Another number whenever sessions may have ended since. Without a follower nothing ends but by this
    /// metaserver.
    pub(crate) fn count(&self) -> u64 {
        self.0.get().map_or(0, |ends| ends.load(Ordering::Acquire))
    }

    /// Follows the count of the replica's events.
    pub(crate) fn follow(&self, ends: Arc<AtomicU64>) {
        let _ = self.0.set(ends);
    }
}
