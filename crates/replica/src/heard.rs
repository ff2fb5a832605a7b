//! When a member heard from its leader last, or was elected itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// What came from a leader (entries and heartbeats), and what voters said last.
pub(crate) struct Heard {
    began: Instant,
    times: AtomicU64,
    leader: Moment,
    voters: Moment,
}

/// Milliseconds after the beginning, and one; 0: never.
#[derive(Default)]
struct Moment(AtomicU64);

impl Moment {
    fn note(&self, began: Instant) {
        self.0.store(began.elapsed().as_millis() as u64 + 1, Ordering::Relaxed);
    }

    fn ago(&self, began: Instant) -> Option<Duration> {
        let at = Duration::from_millis(self.0.load(Ordering::Relaxed).checked_sub(1)?);
        Some(began.elapsed().saturating_sub(at))
    }
}

impl Heard {
    pub(crate) fn new() -> Self {
        let times = AtomicU64::new(0);
        Self { began: Instant::now(), times, leader: Moment::default(), voters: Moment::default() }
    }

    /// Something came from a leader.
    pub(crate) fn note(&self) {
        self.leader.note(self.began);
        self.times.fetch_add(1, Ordering::Relaxed);
    }

    /// How often something came.
    pub(crate) fn times(&self) -> u64 {
        self.times.load(Ordering::Relaxed)
    }

    /// How long nothing came; none: nothing ever did.
    pub(crate) fn leader_ago(&self) -> Option<Duration> {
        self.leader.ago(self.began)
    }

    /// This member was elected.
    pub(crate) fn note_election(&self) {
        self.voters.note(self.began);
    }

    /// How long ago it was; none: it never was.
    pub(crate) fn elected_ago(&self) -> Option<Duration> {
        self.voters.ago(self.began)
    }
}
