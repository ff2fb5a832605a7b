//! How the servers are: the cluster map, with what the leader has heard of each.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use namespace::{DataServerId, NodeKey, NodeState};
use replica::NodeId;
use serde::{Deserialize, Serialize};

use crate::{AdminError, Metaserver};

/// One server.
#[derive(Debug, Clone)]
pub struct NodeReport {
    /// Which.
    pub key: NodeKey,
    /// For people.
    pub name: String,
    /// "leader", "voter", "learner" or "data server".
    pub role: &'static str,
    /// Where clients and other servers reach it; empty if it never said.
    pub address: String,
    /// Of its program; empty if it never said.
    pub version: String,
    /// What it is to do.
    pub state: NodeState,
    /// How long ago it was heard of; none: not since somebody began to listen.
    pub seen: Option<Duration>,
    /// Of a metaserver: the index after the last entry of the log that it has.
    pub applied: Option<u64>,
    /// How many entries it lacks.
    pub lag: Option<u64>,
    /// The service addresses that it holds.
    pub service_addresses: Vec<IpAddr>,
    /// Of a data server: the objects on its targets.
    pub objects: Option<u64>,
}

/// What only the leader knows of the group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GroupReport {
    /// How many milliseconds ago each member was heard of.
    pub heard_ms: BTreeMap<NodeId, u64>,
    /// Up to where each has the log.
    pub matched: BTreeMap<NodeId, u64>,
    /// Who holds which service address.
    pub addresses: BTreeMap<IpAddr, Option<NodeId>>,
    /// Who was heard of just now.
    pub living: BTreeSet<NodeId>,
}

impl Metaserver {
    /// What this metaserver knows of the group, if it leads.
    pub(crate) fn group_report(&self) -> Option<GroupReport> {
        let standing = self.replica.standing();
        let heard = standing.heard.iter().map(|(id, ago)| (*id, ago.as_millis() as u64));
        self.replica.leads().then(|| GroupReport {
            heard_ms: heard.chain([(standing.id, 0)]).collect(),
            matched: standing.matched,
            addresses: self.address_owners(),
            living: standing.living,
        })
    }

    /// What the leader knows of the group.
    pub(crate) async fn ask_group_report(&self) -> GroupReport {
        match self.group_report() {
            Some(report) => report,
            None => self.ask_leader_for_group().await.unwrap_or_default(),
        }
    }

    /// All servers: metaservers first, then by name.
    ///
    /// # Errors
    /// [`AdminError::Failed`].
    pub async fn nodes(&self) -> Result<Vec<NodeReport>, AdminError> {
        self.follow_map().map_err(|status| AdminError::Failed(format!("{status:?}")))?;
        let (map, standing) = (self.map(), self.replica.standing());
        let group = self.ask_group_report().await;
        let end = group.matched.values().copied().max().unwrap_or(standing.applied).max(standing.applied);
        let mut nodes = Vec::new();
        let mut seen = BTreeSet::new();
        for (id, member, voter) in &standing.members {
            let key = NodeKey::Metaserver(*id);
            seen.insert(key);
            let node = map.node(key);
            let applied = group.matched.get(id).copied();
            let applied = if *id == standing.id { Some(standing.applied) } else { applied };
            let own = (*id == standing.id).then_some(Duration::ZERO);
            nodes.push(NodeReport {
                key,
                name: node.map_or_else(|| member.name.clone(), |node| node.name.clone()),
                role: match (standing.leader == Some(*id), voter) {
                    (true, _) => "leader",
                    (false, true) => "voter",
                    (false, false) => "learner",
                },
                address: node.map_or_else(String::new, |node| node.address.clone()),
                version: node.map_or_else(String::new, |node| node.version.clone()),
                state: map.state(key),
                seen: own.or_else(|| group.heard_ms.get(id).copied().map(Duration::from_millis)),
                applied,
                lag: applied.map(|applied| end.saturating_sub(applied)),
                service_addresses: held_by(&group, *id),
                objects: None,
            });
        }
        let targets = self.data.report();
        for server in &map.data_servers {
            let key = NodeKey::DataServer(server.id);
            seen.insert(key);
            let node = map.node(key);
            let its = targets.iter().filter(|target| target.server == server.id);
            nodes.push(NodeReport {
                key,
                name: server.name.clone(),
                role: "data server",
                address: server.addresses.first().cloned().unwrap_or_default(),
                version: node.map_or_else(String::new, |node| node.version.clone()),
                state: node.map_or(NodeState::Serving, |node| node.state),
                seen: self.data.heard(server.id),
                applied: None,
                lag: None,
                service_addresses: vec![],
                objects: Some(its.map(|target| target.objects).sum()),
            });
        }
        // Removed, and therefore no member any more.
        for node in map.nodes.iter().filter(|node| !seen.contains(&node.key)) {
            nodes.push(NodeReport {
                key: node.key,
                name: node.name.clone(),
                role: if matches!(node.key, NodeKey::DataServer(DataServerId(_))) {
                    "data server"
                } else {
                    "voter"
                },
                address: node.address.clone(),
                version: node.version.clone(),
                state: node.state,
                seen: None,
                applied: None,
                lag: None,
                service_addresses: vec![],
                objects: None,
            });
        }
        nodes.sort_by(|a, b| {
            let is_data = |node: &NodeReport| matches!(node.key, NodeKey::DataServer(_));
            (is_data(a), &a.name, a.key).cmp(&(is_data(b), &b.name, b.key))
        });
        Ok(nodes)
    }
}

/// The service addresses that a member holds.
pub(crate) fn held_by(group: &GroupReport, member: NodeId) -> Vec<IpAddr> {
    let held = group.addresses.iter().filter(|(_, owner)| **owner == Some(member));
    held.map(|(address, _)| *address).collect()
}
