//! The leader's watch on all servers: one log line when a server goes silent, and one when it is heard of again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use namespace::{NodeKey, NodeState};

use super::Liveness;
use crate::{Metaserver, NodeReport};

/// Interval between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A leader judges after this time in office: the others need it to be heard of by the new leader.
const JUDGES_AFTER: u32 = 6;

/// The servers that were silent at the last look.
#[derive(Default)]
struct Watch {
    silent: BTreeSet<NodeKey>,
    /// Looks since this metaserver leads.
    looks: u32,
}

/// A server's liveness changed.
#[derive(Debug, PartialEq, Eq)]
enum Change<'a> {
    Silent(&'a NodeReport),
    Back(&'a NodeReport),
}

impl Metaserver {
    /// Logs, while this metaserver leads, which servers go silent and which come back.
    pub(crate) async fn watch_servers(self: Arc<Self>) {
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
        }
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
    fn a_removed_server_is_forgotten_without_a_word() {
        let mut watch = Watch { looks: JUDGES_AFTER, ..Watch::default() };
        let mut gone = [node(1, Liveness::Silent)];
        assert_eq!(watch.look(&gone).len(), 1);
        gone[0].state = NodeState::Removed;
        assert_eq!(watch.look(&gone), []);
        assert!(watch.silent.is_empty());
    }
}
