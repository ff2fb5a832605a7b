//! Report of all servers: the cluster map, with the last contact of the leader with each server.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use namespace::{DataServerId, Node, NodeKey, NodeState};
use replica::NodeId;
use serde::{Deserialize, Serialize};

use crate::cluster::Cluster;
use crate::data_servers::SILENT_AFTER;
use crate::error::AdminError;
use crate::nodes::GroupReport;

/// A member without contact to the leader for this long is silent: the time of some elections.
const MEMBER_SILENT_AFTER: Duration = Duration::from_secs(3);

/// Liveness of a server, by its last contact.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Liveness {
    /// The last contact was just now.
    Alive,
    /// There was no contact for some seconds.
    Silent,
    /// The leader cannot be asked, or this metaserver has just been started.
    #[default]
    Unknown,
}

/// One server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeReport {
    /// Its key.
    pub key: NodeKey,
    /// Name, for people.
    pub name: String,
    /// "leader", "voter", "learner" or "data server".
    pub role: &'static str,
    /// Address for clients and other servers; empty: it never registered one.
    pub address: String,
    /// All addresses of a data server; of a metaserver, the address above.
    pub addresses: Vec<String>,
    /// Program version; empty: it never registered one.
    pub version: String,
    /// Its administrative state.
    pub state: NodeState,
    /// Its liveness.
    pub liveness: Liveness,
    /// Time since the last contact; none: no contact since the observer started.
    pub seen: Option<Duration>,
    /// Of a metaserver: the index after the last entry of the log that it has.
    pub applied: Option<u64>,
    /// Log entries that it lacks.
    pub lag: Option<u64>,
    /// The service addresses that it holds.
    pub service_addresses: Vec<IpAddr>,
    /// Of a data server: the objects on its targets.
    pub objects: Option<u64>,
    /// Milliseconds that its clock is ahead of the cluster's; none: not known.
    pub clock_ahead_ms: Option<i64>,
    /// True of a metaserver that serves no client, since its state is disputed or cannot be read.
    pub out_of_service: bool,
}

impl Cluster {
    /// Report of the group, if this metaserver leads.
    pub(crate) fn group_report(&self) -> Option<GroupReport> {
        let status = self.group.replica.status();
        let heard = status.last_contact.iter().map(|(id, ago)| (*id, ago.as_millis() as u64));
        self.group.replica.leads().then(|| GroupReport {
            heard_ms: heard.chain([(status.id, 0)]).collect(),
            matched: status.matched,
            addresses: self.address_owners(),
            data_addresses: self.data_address_owners(),
            living: status.reachable,
            out_of_service: self.out_of_service(),
            clocks: self.clocks.ahead(NodeKey::Metaserver(status.id), self.group.clock.monotonic()),
        })
    }

    /// Report of the group by the leader; none: the leader cannot be asked.
    pub async fn ask_group_report(&self) -> Option<GroupReport> {
        match self.group_report() {
            Some(report) => Some(report),
            None => self.ask_leader_for_group().await,
        }
    }

    /// All servers: metaservers first, then by name.
    ///
    /// # Errors
    /// [`AdminError::Failed`].
    pub async fn nodes(&self) -> Result<Vec<NodeReport>, AdminError> {
        let group = self.ask_group_report().await;
        self.nodes_with(group.as_ref())
    }

    /// All servers, with the leader's report of the group; none: the leader could not be asked.
    ///
    /// # Errors
    /// [`AdminError::Failed`].
    pub fn nodes_with(&self, group: Option<&GroupReport>) -> Result<Vec<NodeReport>, AdminError> {
        self.follow_map()?;
        let (map, status) = (self.map(), self.group.replica.status());
        let matched = group.map(|group| &group.matched);
        let end = matched.and_then(|all| all.values().copied().max()).unwrap_or(status.applied);
        let end = end.max(status.applied);
        let mut nodes = Vec::new();
        let mut present = BTreeSet::new();
        for (id, member, voter) in &status.members {
            let key = NodeKey::Metaserver(*id);
            present.insert(key);
            let its_own = *id == status.id;
            let applied = matched.and_then(|all| all.get(id).copied());
            let applied = if its_own { Some(status.applied) } else { applied };
            let seen = group.and_then(|group| group.heard_ms.get(id).copied().map(Duration::from_millis));
            let seen = if its_own { Some(Duration::ZERO) } else { seen };
            let liveness = match (group, seen) {
                (_, Some(ago)) if ago < MEMBER_SILENT_AFTER => Liveness::Alive,
                (None, _) => Liveness::Unknown,
                (Some(group), _) if group.living.contains(id) => Liveness::Alive,
                (Some(_), _) => Liveness::Silent,
            };
            let unknown = NodeReport::unknown(key);
            let known = map.node(key).map(|node| NodeReport::listed(node, map.state(key)));
            nodes.push(NodeReport {
                name: known.as_ref().map_or_else(|| member.name.clone(), |node| node.name.clone()),
                role: match (status.leader == Some(*id), voter) {
                    (true, _) => "leader",
                    (false, true) => "voter",
                    (false, false) => "learner",
                },
                state: map.state(key),
                liveness,
                seen,
                applied,
                lag: applied.map(|applied| end.saturating_sub(applied)),
                service_addresses: group.map(|group| held_by(group, *id)).unwrap_or_default(),
                ..known.unwrap_or(unknown)
            });
        }
        let targets = self.data_servers.report();
        for server in &map.data_servers {
            let key = NodeKey::DataServer(server.id);
            present.insert(key);
            let its = targets.iter().filter(|target| target.server == server.id);
            let seen = self.data_servers.heard(server.id);
            let has_just_begun = self.group.clock.monotonic() < SILENT_AFTER;
            let known = map.node(key).map(|node| NodeReport::listed(node, node.state));
            nodes.push(NodeReport {
                name: server.name.clone(),
                role: "data server",
                address: server.addresses.first().cloned().unwrap_or_default(),
                addresses: server.addresses.clone(),
                liveness: match seen {
                    Some(ago) if ago < SILENT_AFTER => Liveness::Alive,
                    None if has_just_begun => Liveness::Unknown,
                    Some(_) | None => Liveness::Silent,
                },
                seen,
                objects: Some(its.map(|target| target.objects).sum()),
                service_addresses: group
                    .map(|group| held_by_data_server(group, server.id))
                    .unwrap_or_default(),
                ..known.unwrap_or(NodeReport::unknown(key))
            });
        }
        // Removed servers, which are no members any more.
        let removed = map.nodes.iter().filter(|node| !present.contains(&node.key));
        nodes.extend(removed.map(|node| NodeReport::listed(node, node.state)));
        for node in &mut nodes {
            node.clock_ahead_ms = group.and_then(|group| group.clocks.get(&node.key).copied());
            if let NodeKey::Metaserver(id) = node.key {
                node.out_of_service = group.is_some_and(|group| group.out_of_service.contains(&id))
                    || id == status.id && self.group.replica.is_out_of_service();
            }
        }
        nodes.sort_by(|a, b| {
            let is_data = |node: &NodeReport| matches!(node.key, NodeKey::DataServer(_));
            (is_data(a), &a.name, a.key).cmp(&(is_data(b), &b.name, b.key))
        });
        Ok(nodes)
    }
}

impl NodeReport {
    /// A server with nothing but a key.
    pub(crate) fn unknown(key: NodeKey) -> Self {
        Self {
            key,
            name: String::new(),
            role: if matches!(key, NodeKey::DataServer(_)) { "data server" } else { "voter" },
            address: String::new(),
            addresses: vec![],
            version: String::new(),
            state: NodeState::Serving,
            liveness: Liveness::Unknown,
            seen: None,
            applied: None,
            lag: None,
            service_addresses: vec![],
            objects: None,
            clock_ahead_ms: None,
            out_of_service: false,
        }
    }

    /// A server as the cluster map lists it.
    fn listed(node: &Node, state: NodeState) -> Self {
        Self {
            name: node.name.clone(),
            address: node.address.clone(),
            addresses: vec![node.address.clone()],
            version: node.version.clone(),
            state,
            ..Self::unknown(node.key)
        }
    }
}

/// The service addresses that a data server holds: its own, and those of others that are silent.
fn held_by_data_server(group: &GroupReport, server: DataServerId) -> Vec<IpAddr> {
    let held = group.data_addresses.iter().filter(|(_, owner)| **owner == Some(server));
    held.map(|(address, _)| *address).collect()
}

/// The service addresses that a member holds.
pub(crate) fn held_by(group: &GroupReport, member: NodeId) -> Vec<IpAddr> {
    let held = group.addresses.iter().filter(|(_, owner)| **owner == Some(member));
    held.map(|(address, _)| *address).collect()
}
