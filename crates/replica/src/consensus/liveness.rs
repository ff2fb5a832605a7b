//! Liveness of members: the last message of the leader, the last election of this member, and the reachable
//! members.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use openraft::async_runtime::Instant as _;
use tokio::time::Instant;

use crate::types::{Metrics, NodeId};

/// Interval of a leader's heartbeats, and the least and greatest time without one after which a member stands
/// for election; each member draws its own. Longer than a disk stalls: a stalled disk is no reason to change
/// the leader.
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(100);
pub(crate) const ELECTION_AFTER: (Duration, Duration) =
    (Duration::from_millis(500), Duration::from_millis(1000));
/// A member that answered within this time is reachable.
const SILENT_AFTER: Duration = ELECTION_AFTER.1;

/// Times of the last message of a leader (entries or heartbeat) and of the last election of this member.
pub(crate) struct Liveness {
    start: Instant,
    leader_messages: AtomicU64,
    leader: AtomicMoment,
    voters: AtomicMoment,
}

/// Milliseconds since the start, plus one; 0: never.
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

    /// Notes a message of a leader.
    pub(crate) fn note_leader_message(&self) {
        self.leader.note(self.start);
        self.leader_messages.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of messages of leaders.
    pub(crate) fn leader_messages(&self) -> u64 {
        self.leader_messages.load(Ordering::Relaxed)
    }

    /// Time since the last message of a leader; None: there was none.
    pub(crate) fn leader_ago(&self) -> Option<Duration> {
        self.leader.ago(self.start)
    }

    /// Notes the election of this member.
    pub(crate) fn note_election(&self) {
        self.voters.note(self.start);
    }

    /// Time since the last election of this member; None: there was none.
    pub(crate) fn elected_ago(&self) -> Option<Duration> {
        self.voters.ago(self.start)
    }
}

/// Members that a leader heard of within [`SILENT_AFTER`], and itself.
pub(crate) fn reachable(metrics: &Metrics) -> BTreeSet<NodeId> {
    let heard = metrics.heartbeat.iter().flatten();
    let lately = heard.filter(|(_, at)| at.is_some_and(|at| at.elapsed() < SILENT_AFTER));
    lately.map(|(id, _)| *id).chain([metrics.id]).collect()
}

/// Time since a leader heard of each other member.
pub(crate) fn last_contact(metrics: &Metrics) -> BTreeMap<NodeId, Duration> {
    let heard = metrics.heartbeat.iter().flatten();
    heard
        .filter_map(|(id, at)| Some((*id, at.as_ref()?.elapsed())))
        .filter(|(id, _)| *id != metrics.id)
        .collect()
}

/// The leader, or None if it is unreachable for so long that another is elected, or if this member leads and
/// too few voters answered it lately.
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

/// True if `reachable` has a majority of `voters`; else the reason for the operator.
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
