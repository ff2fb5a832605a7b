//! Service addresses of data servers. Each belongs to one data server, its home. While the home is silent,
//! another data server holds the address, so that clients of a dead machine are answered: they learn that
//! their session is unknown and their handles are of another server, and go on through a metaserver.
//!
//! ```text
//! every data server ──"these I hold, these are connected"──▶ all metaservers     every 150 ms to the leader
//!        ▲                                                     │
//!        └──────"these you may hold for a second"──────────────┘ leader only
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use namespace::{ClusterMap, DataServer, DataServerId, NodeKey, NodeState};
use wire::cluster::hold_addresses;

use super::assignment::{Assignment, BEAT, LEASE};
use super::clients;
use crate::cluster::Cluster;
use crate::peers::{addresses, text};

/// Interval at which a data server tells a metaserver that does not lead of its clients.
const BEAT_OF_OTHERS: Duration = Duration::from_millis(500);

/// The beat of a holder is late after this time: it beats a moment after each answer ([`BEAT`]), and may be taking an
/// address meanwhile.
const LATE_AFTER: Duration = Duration::from_millis(350);

/// The leader's assignments.
#[derive(Default)]
pub(crate) struct Assignments {
    /// Term in which they began: what a leader of a term between granted is not known here.
    term: u64,
    /// By port: a data server can take over the addresses with its own port.
    by_port: BTreeMap<u16, Assignment<DataServerId>>,
}

/// Service address of a data server as clients reach it.
fn service_address(server: &DataServer) -> Option<SocketAddr> {
    server.service_address.as_ref()?.parse().ok()
}

/// Homes of the addresses with this port. A removed data server keeps its address until another one has it:
/// clients may still have layouts with it.
fn homes(map: &ClusterMap, port: u16) -> BTreeMap<IpAddr, DataServerId> {
    let mut homes = BTreeMap::new();
    for removed in [true, false] {
        for server in &map.data_servers {
            let is_removed = map.state(NodeKey::DataServer(server.id)) == NodeState::Removed;
            if is_removed == removed
                && let Some(address) = service_address(server).filter(|address| address.port() == port)
            {
                homes.insert(address.ip(), server.id);
            }
        }
    }
    homes
}

impl Cluster {
    /// The data server that has this service address, removed ones left out.
    pub(crate) fn data_server_at(&self, address: IpAddr) -> Option<DataServer> {
        let map = self.map();
        let has = |server: &&DataServer| service_address(server).is_some_and(|own| own.ip() == address);
        map.present_data_servers().find(has).cloned()
    }

    /// Reason why a data server cannot have the service address that it registers: the address is another
    /// server's. None: it can.
    #[must_use]
    pub fn service_address_refusal(&self, server: &DataServer) -> Option<String> {
        let own = service_address(server)?.ip();
        let map = self.map();
        if map.head.service_addresses.contains(&own) {
            return Some(format!("{own} is a service address of the metaservers"));
        }
        let is_own = |address: &String| address.parse::<SocketAddr>().is_ok_and(|a| a.ip() == own);
        if server.addresses.iter().any(is_own) {
            return Some(format!("{own} is the own address of its machine, and cannot move"));
        }
        let present = |node: &&namespace::Node| node.state != NodeState::Removed;
        if let Some(node) = map.nodes.iter().filter(present).find(|node| is_own(&node.address)) {
            return Some(format!("{own} is the own address of {}", node.name));
        }
        let other = self.data_server_at(own).filter(|other| other.id != server.id)?;
        Some(format!("{own} is the service address of {}", other.name))
    }

    /// Answers the beat of a data server: the addresses that it may hold from now on, if this metaserver leads.
    pub async fn answer_hold_addresses(
        self: &Arc<Self>,
        args: hold_addresses::Args,
    ) -> hold_addresses::ResOk {
        let told = clients::of_wire(&args.connections);
        if args.tells_connections {
            self.addressing.clients.learn(told);
        }
        let granted = self.grant_to_data_server(&args).await;
        let interval = if granted.is_some() { BEAT } else { BEAT_OF_OTHERS };
        let held: Vec<IpAddr> = addresses(&args.held);
        let taken = granted.iter().flatten().filter(|address| !held.contains(address));
        let of = |address: &IpAddr| (*address, self.addressing.clients.of(*address));
        hold_addresses::ResOk {
            leads: granted.is_some(),
            beat_ms: interval.as_millis() as u32,
            lease_ms: LEASE.as_millis() as u32,
            connections: clients::to_wire(&taken.map(of).collect()),
            granted: granted.iter().flatten().map(text).collect(),
        }
    }

    async fn grant_to_data_server(&self, args: &hold_addresses::Args) -> Option<Vec<IpAddr>> {
        let agreed = tokio::time::timeout(BEAT, self.group.read_barrier()).await;
        if !matches!(agreed, Ok(Ok(_))) || !self.group.replica.leads() {
            return None;
        }
        let term = self.group.replica.status().term;
        let (id, port) = (DataServerId(args.server), u16::try_from(args.port).ok()?);
        let (map, now) = (self.map(), self.group.clock.monotonic());
        let is_present = map.present_data_servers().any(|server| server.id == id);
        let mut all = self.addressing.of_data_servers.lock();
        if all.term != term {
            *all = Assignments { term, by_port: BTreeMap::new() };
        }
        let assignment = all.by_port.entry(port).or_insert_with(|| Assignment::new(&[], [], now));
        assignment.follow_homes(homes(&map, port), now);
        Some(if is_present { assignment.beat(id, &addresses(&args.held), now) } else { vec![] })
    }

    /// Data servers that hold addresses by this leader's assignment, and whose beat is late.
    pub(crate) fn late_holders(&self, now: Duration) -> BTreeSet<DataServerId> {
        let all = self.addressing.of_data_servers.lock();
        let is_present = all.term == self.group.replica.status().term;
        let assignments = all.by_port.values().filter(|_| is_present);
        assignments.flat_map(|assignment| assignment.late_holders(LATE_AFTER, now)).collect()
    }

    /// Notes that the process of a data server whose beat is late is dead: its addresses are free. Returns false if it
    /// held none, or has sent a beat.
    pub(crate) fn free_addresses_of(&self, server: DataServerId) -> bool {
        let now = self.group.clock.monotonic();
        let mut all = self.addressing.of_data_servers.lock();
        let is_late = |its: &&mut Assignment<_>| its.late_holders(LATE_AFTER, now).contains(&server);
        all.by_port.values_mut().filter(is_late).map(|its| its.gone(server, now)).count() > 0
    }

    /// Holder of each service address of a data server; asked of the leader.
    pub(crate) fn data_address_owners(&self) -> BTreeMap<IpAddr, Option<DataServerId>> {
        let all = self.addressing.of_data_servers.lock();
        let is_present = all.term == self.group.replica.status().term;
        let assignments = all.by_port.values().filter(|_| is_present);
        assignments.flat_map(Assignment::owners).collect()
    }
}
