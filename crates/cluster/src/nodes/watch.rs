//! The leader's watch on all servers: one log line when a server goes silent or its clock goes wrong, and one
//! when it is heard of again or the clock is right.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use namespace::{NodeKey, NodeState};

use super::{Liveness, NodeReport};
use crate::clocks::differs;
use crate::cluster::Cluster;

/// Interval between two checks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Checks by a new leader before it judges liveness: the other servers need this time to contact the new
/// leader.
const JUDGES_AFTER: u32 = 6;

/// The servers that were silent, or whose clocks were wrong, at the last check.
#[derive(Default)]
struct Watch {
    silent: BTreeSet<NodeKey>,
    wrong_clocks: BTreeSet<NodeKey>,
    /// Number of checks since this metaserver leads.
    looks: u32,
}

/// A change of a server's liveness, or of its clock.
#[derive(Debug, PartialEq, Eq)]
enum Change<'a> {
    Silent(&'a NodeReport),
    Back(&'a NodeReport),
    /// With the seconds that the clock is ahead.
    ClockWrong(&'a NodeReport, i64),
    ClockRight(&'a NodeReport),
}

impl Cluster {
    /// Logs, while this metaserver leads, each server that goes silent or comes back.
    pub async fn watch_servers(self: Arc<Self>) {
        let mut often = tokio::time::interval(LOOK_EVERY);
        often.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut watch = Watch::default();
        loop {
            often.tick().await;
            let Some(group) = self.group_report() else {
                watch = Watch::default();
                continue;
            };
            let Ok(nodes) = self.nodes_with(Some(&group)) else { continue };
            for change in watch.look(&nodes) {
                say(&change);
            }
        }
    }
}

impl Watch {
    fn look<'a>(&mut self, nodes: &'a [NodeReport]) -> Vec<Change<'a>> {
        self.looks = self.looks.saturating_add(1);
        if self.looks < JUDGES_AFTER {
            return vec![];
        }
        let mut changes = Vec::new();
        let present = nodes.iter().filter(|node| node.state != NodeState::Removed);
        let mut known = BTreeSet::new();
        for node in present {
            known.insert(node.key);
            match node.liveness {
                Liveness::Silent if self.silent.insert(node.key) => changes.push(Change::Silent(node)),
                Liveness::Alive if self.silent.remove(&node.key) => changes.push(Change::Back(node)),
                _ => {}
            }
            match node.clock_ahead_ms {
                Some(ahead) if differs(ahead) && self.wrong_clocks.insert(node.key) => {
                    changes.push(Change::ClockWrong(node, ahead / 1000));
                }
                Some(ahead) if !differs(ahead) && self.wrong_clocks.remove(&node.key) => {
                    changes.push(Change::ClockRight(node));
                }
                _ => {}
            }
        }
        self.wrong_clocks.retain(|key| known.contains(key));
        self.silent.retain(|key| known.contains(key));
        changes
    }
}

fn say(change: &Change<'_>) {
    match change {
        Change::Silent(node) => tracing::warn!(
            name = %node.name,
            role = node.role,
            address = %node.address,
            "server is silent: start it, or look at its machine and its network"
        ),
        Change::Back(node) => {
            tracing::info!(name = %node.name, role = node.role, "server is heard of again");
        }
        Change::ClockWrong(node, seconds_ahead) => tracing::warn!(
            name = %node.name,
            role = node.role,
            seconds_ahead,
            "clock of a server differs from the others': set it; times of files may be wrong until then"
        ),
        Change::ClockRight(node) => {
            tracing::info!(name = %node.name, role = node.role, "clock of the server agrees with the others' again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: u64, liveness: Liveness) -> NodeReport {
        NodeReport { liveness, ..NodeReport::unknown(NodeKey::Metaserver(id)) }
    }

    #[test]
    fn a_server_is_named_once_when_it_goes_silent_and_once_when_it_is_back() {
        use Liveness::{Alive, Silent, Unknown};
        let mut watch = Watch { looks: JUDGES_AFTER, ..Watch::default() };
        let mut changes = |states: [Liveness; 2]| {
            let nodes = [node(1, states[0]), node(2, states[1])];
            let named = |change: Change<'_>| match change {
                Change::Silent(node) => (node.key, true),
                Change::Back(node) => (node.key, false),
                other => panic!("{other:?}"),
            };
            watch.look(&nodes).into_iter().map(named).collect::<Vec<_>>()
        };
        let second = NodeKey::Metaserver(2);
        assert_eq!(changes([Alive, Alive]), []);
        assert_eq!(changes([Alive, Silent]), [(second, true)]);
        assert_eq!(changes([Alive, Silent]), []);
        assert_eq!(changes([Alive, Unknown]), [], "nothing new is known");
        assert_eq!(changes([Alive, Alive]), [(second, false)]);
    }

    #[test]
    fn a_new_leader_judges_when_the_others_had_time_to_be_heard_of() {
        let mut watch = Watch::default();
        let nodes = [node(1, Liveness::Silent)];
        let first = (0..JUDGES_AFTER).position(|_| !watch.look(&nodes).is_empty());
        assert_eq!(first, Some(JUDGES_AFTER as usize - 1));
    }

    #[test]
    fn a_clock_that_goes_wrong_is_named_once_and_when_it_is_right() {
        let mut watch = Watch { looks: JUDGES_AFTER, ..Watch::default() };
        let mut said = |clock_ahead_ms| {
            let nodes = [NodeReport { clock_ahead_ms, ..node(1, Liveness::Alive) }];
            let is_wrong = |change: Change<'_>| match change {
                Change::ClockWrong(_, seconds) => Some(seconds),
                Change::ClockRight(_) => None,
                other => panic!("{other:?}"),
            };
            watch.look(&nodes).into_iter().map(is_wrong).collect::<Vec<_>>()
        };
        assert_eq!(said(Some(2000)), []);
        assert_eq!(said(Some(-60_000)), [Some(-60)]);
        assert_eq!(said(Some(-61_000)), []);
        assert_eq!(said(None), [], "nothing new is known");
        assert_eq!(said(Some(0)), [None]);
    }

    #[test]
    fn a_removed_server_is_forgotten_without_a_word() {
        let mut watch = Watch { looks: JUDGES_AFTER, ..Watch::default() };
        let mut gone = [node(1, Liveness::Silent)];
        assert_eq!(watch.look(&gone).len(), 1);
        gone[0].state = NodeState::Removed;
        assert_eq!(watch.look(&gone), []);
        assert!(watch.silent.is_empty());
    }
}
