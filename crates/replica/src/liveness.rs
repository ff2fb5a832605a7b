//! When a member heard from its leader last, or was elected itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// What came from a leader (entries and heartbeats), and what voters said last.
pub(crate) struct Liveness {
    start: Instant,
    leader_messages: AtomicU64,
    leader: AtomicMoment,
    voters: AtomicMoment,
}

/// Milliseconds after the beginning, and one; 0: never.
#[derive(Default)]
struct AtomicMoment(AtomicU64);

impl AtomicMoment {
    fn note(&self, start: Instant) {
        self.0.store(start.elapsed().as_millis() as u64 + 1, Ordering::Relaxed);
    }

    fn ago(&self, start: Instant) -> Option<Duration> {
        let at = Duration::from_millis(self.0.load(Ordering::Relaxed).checked_sub(1)?);
        Some(start.elapsed().saturating_sub(at))
    }
}

impl Liveness {
    pub(crate) fn new() -> Self {
        let leader_messages = AtomicU64::new(0);
        Self {
            start: Instant::now(),
            leader_messages,
            leader: AtomicMoment::default(),
            voters: AtomicMoment::default(),
        }
    }

    /// Something came from a leader.
    pub(crate) fn note_leader_message(&self) {
        self.leader.note(self.start);
        self.leader_messages.fetch_add(1, Ordering::Relaxed);
    }

    /// How often something came.
    pub(crate) fn leader_messages(&self) -> u64 {
        self.leader_messages.load(Ordering::Relaxed)
    }

    /// How long nothing came; none: nothing ever did.
    pub(crate) fn leader_ago(&self) -> Option<Duration> {
        self.leader.ago(self.start)
    }

    /// This member was elected.
    pub(crate) fn note_election(&self) {
        self.voters.note(self.start);
    }

    /// How long ago it was; none: it never was.
    pub(crate) fn elected_ago(&self) -> Option<Duration> {
        self.voters.ago(self.start)
    }
}
