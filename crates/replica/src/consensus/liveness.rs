//! When a member heard from its leader last, or was elected itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use openraft::async_runtime::Instant as _;
use tokio::time::Instant;

use crate::types::{Metrics, NodeId};

/// A leader says so often that it lives; who does not hear from one for so long (each its own time, between these two)
/// stands for election. A disk that stands still for as long as a disk does is no reason to change leaders.
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(100);
pub(crate) const ELECTION_AFTER: (Duration, Duration) =
    (Duration::from_millis(500), Duration::from_millis(1000));
/// Who has answered since then lives.
const SILENT_AFTER: Duration = ELECTION_AFTER.1;

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

/// The members that a leader has heard of just now, and itself.
pub(crate) fn reachable(metrics: &Metrics) -> BTreeSet<NodeId> {
    let heard = metrics.heartbeat.iter().flatten();
    let lately = heard.filter(|(_, at)| at.is_some_and(|at| at.elapsed() < SILENT_AFTER));
    lately.map(|(id, _)| *id).chain([metrics.id]).collect()
}

/// How long ago a leader heard of the others.
pub(crate) fn last_contact(metrics: &Metrics) -> BTreeMap<NodeId, Duration> {
    let heard = metrics.heartbeat.iter().flatten();
    heard
        .filter_map(|(id, at)| Some((*id, at.as_ref()?.elapsed())))
        .filter(|(id, _)| *id != metrics.id)
        .collect()
}

/// Who leads now: not one that was not heard of for so long that another is elected, if enough voters are there; nor this
/// member, when too few of them answered it lately.
pub(crate) fn reachable_leader(metrics: &Metrics, liveness: &Liveness) -> Option<NodeId> {
    let leader = metrics.current_leader?;
    let lately = |ago: Option<Duration>| ago.is_some_and(|ago| ago < SILENT_AFTER);
    let leads = if leader == metrics.id {
        let reachable = reachable(metrics);
        let steps = metrics.membership_config.membership().get_joint_config();
        lately(liveness.elected_ago()) || steps.iter().all(|voters| can_agree(voters, &reachable).is_ok())
    } else {
        lately(liveness.leader_ago())
    };
    leads.then_some(leader)
}

/// Whether these voters can agree on anything; else the words for it.
pub(crate) fn can_agree(voters: &BTreeSet<NodeId>, reachable: &BTreeSet<NodeId>) -> Result<(), String> {
    let needed = voters.len() / 2 + 1;
    let live = voters.intersection(reachable).count();
    if live >= needed {
        return Ok(());
    }
    Err(format!(
        "that would leave {} with a vote, of which {live} can be reached now and {needed} are needed: nothing could be read \
         or changed then. Bring another one back first",
        voters.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_of_those_who_vote_must_live() {
        let set = |ids: &[NodeId]| ids.iter().copied().collect::<BTreeSet<_>>();
        for (voters, reachable, fine) in [
            (&[1][..], &[1][..], true),
            (&[1, 2], &[1, 2, 9], true),
            (&[1, 2], &[1, 9], false),
            (&[1, 2, 3], &[1, 3], true),
            (&[1, 2, 3, 4], &[1, 3], false),
        ] {
            assert_eq!(can_agree(&set(voters), &set(reachable)).is_ok(), fine, "{voters:?} of {reachable:?}");
        }
        let why = can_agree(&set(&[1, 2, 3]), &set(&[1])).unwrap_err();
        assert!(why.contains("leave 3 with a vote, of which 1 can be reached now and 2 are needed"), "{why}");
    }
}
