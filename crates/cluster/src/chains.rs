//! Chains of targets, as this metaserver follows them: the member that a call goes to, and the state that data
//! servers are told.
//!
//! ```text
//! state machine: chains ─▶ follow ─┬▶ calls of this metaserver: the head
//!                                  └▶ data servers: REGISTER's answer, CHAIN
//! leader: watch ─▶ a member is silent, failed, or back ─▶ ChangeChains ─▶ CHAIN to the members
//! ```

mod adopt;
mod apart;
mod balance;
mod known;
pub(crate) mod lease;
mod left_behind;
mod make;
mod open;
mod placement;
pub(crate) mod rebalance;
mod room;
mod sites;
mod step;
mod stop;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use host::watch::Sender;
use namespace::{Chain, ChainId, ClusterMap, MemberState, PoolId, TargetId};
use parking_lot::RwLock;
use tokio::sync::Notify;
use wire::data;

use crate::chains::lease::Leases;
use crate::chains::room::Refusals;
use crate::cluster::Cluster;

/// Copies of new files once there are two machines, where no number is set.
const COPIES_IF_AUTO: u8 = 2;

/// The chains after the last applied change.
#[derive(Default)]
pub(crate) struct Chains {
    /// As they are now: members whose process has changed are away.
    present: Sender<Arc<BTreeMap<ChainId, Chain>>>,
    /// Notification that the map has changed: the leader looks at the chains.
    pub(crate) changed: Notify,
    pub(crate) leases: Leases,
    /// Pools with chains whose targets are on different machines.
    on_two_machines: RwLock<BTreeSet<PoolId>>,
    /// Held while chains are made.
    making: tokio::sync::Mutex<()>,
    /// Chains that answered NOSPC.
    refusals: Refusals,
    left_behind: left_behind::LeftBehind,
    looks: rebalance::Looks,
    opened: tokio::sync::Mutex<open::Opened>,
}

/// Machines of the data servers, by target: those with one address are on one machine.
fn machines(map: &ClusterMap) -> BTreeMap<TargetId, IpAddr> {
    let of_server = |server: &namespace::DataServer| {
        let machine = machine(server);
        server.targets.iter().filter_map(move |target| Some((*target, machine?))).collect::<Vec<_>>()
    };
    map.present_data_servers().flat_map(of_server).collect()
}

/// Machine of a data server, by its address.
fn machine(server: &namespace::DataServer) -> Option<IpAddr> {
    Some(server.addresses.first()?.parse::<SocketAddr>().ok()?.ip())
}

/// Processes of the data servers, by target.
fn processes(map: &ClusterMap) -> BTreeMap<TargetId, u64> {
    let of_server = |server: &namespace::DataServer| {
        let process = server.process;
        server.targets.iter().map(move |target| (*target, process)).collect::<Vec<_>>()
    };
    map.present_data_servers().flat_map(of_server).collect()
}

impl Chains {
    pub(crate) fn follow(&self, map: &ClusterMap) {
        let processes = processes(map);
        let present = |chain: &Chain| {
            let chain = chain.clone().with_processes(|target| processes.get(&target).copied());
            (chain.id, chain)
        };
        self.present.set(Arc::new(map.chains.iter().map(present).collect()));
        let machines = machines(map);
        let is_on_two = |chain: &&Chain| {
            let mut of_members = chain.members.iter().filter_map(|member| machines.get(&member.target));
            let first = of_members.next();
            chain.copies >= COPIES_IF_AUTO && of_members.any(|other| Some(other) != first)
        };
        *self.on_two_machines.write() = map.chains.iter().filter(is_on_two).map(|chain| chain.pool).collect();
        self.changed.notify_one();
    }

    /// Copies of new files in a pool where no number is set.
    pub(crate) fn copies_if_auto(&self, pool: PoolId) -> u8 {
        if self.on_two_machines.read().contains(&pool) { COPIES_IF_AUTO } else { 1 }
    }
}

impl Cluster {
    /// All chains of several targets, as they are now.
    #[must_use]
    pub fn chains(&self) -> Arc<BTreeMap<ChainId, Chain>> {
        Arc::clone(&self.chains.present.get())
    }

    /// The target that calls for a column on this chain go to: the head, or the only target. While no member is in,
    /// the one that calls wait for.
    #[must_use]
    pub fn head_of(&self, chain: ChainId) -> TargetId {
        let chains = self.chains();
        let Some(chain) = chains.get(&chain) else { return TargetId(chain.0) };
        let lost = self.data_servers.lost_targets();
        let mut head = chain.with_state(MemberState::In).filter(|target| !lost.contains(target));
        let any = chain.members.iter().map(|member| member.target);
        let awaited = || any.clone().find(|target| !lost.contains(target)).or(any.clone().next());
        head.next().or_else(awaited).unwrap_or(TargetId(chain.id.0))
    }

    /// Returns when one of these chains has another head than `target`: a call to `target` need not be waited
    /// for.
    pub fn until_not_head(
        &self,
        of: Vec<ChainId>,
        target: TargetId,
    ) -> impl Future<Output = ()> + Send + use<> {
        let mut present = self.chains.present.subscribe();
        let is_another = move |chains: &Arc<BTreeMap<ChainId, Chain>>| {
            let head = |chain| chains.get(chain).and_then(Chain::head);
            of.iter().filter_map(head).any(|head| head != target)
        };
        async move {
            if present.wait_for(is_another).await.is_err() {
                std::future::pending().await // this metaserver ends
            }
        }
    }

    /// The target that a client with a layout to read calls, for a file with this number: files are spread over
    /// the members that are in.
    #[must_use]
    pub fn reader_of(&self, chain: ChainId, rotation: u64) -> TargetId {
        let chains = self.chains();
        let Some(found) = chains.get(&chain) else { return TargetId(chain.0) };
        let members: Vec<TargetId> = found.with_state(MemberState::In).collect();
        match members.len() as u64 {
            0 => self.head_of(chain),
            count => members[(rotation % count) as usize],
        }
    }

    /// True if nothing waits for the data on this chain any more: all its members are lost; of a chain of one copy, the
    /// one that has it.
    #[must_use]
    pub fn is_chain_lost(&self, chain: ChainId) -> bool {
        let lost = self.data_servers.lost_targets();
        // The members of a chain in doubt are others than the backup says.
        if lost.is_empty() || self.is_in_doubt(chain) {
            return false;
        }
        match self.chains().get(&chain) {
            Some(Chain { copies: 1, .. }) => {
                let map = self.map();
                let at = map.chains.binary_search_by_key(&chain, |chain| chain.id);
                // By the record: one that has started again has its data.
                at.is_ok_and(|at| {
                    let mut with_data = map.chains[at].with_state(MemberState::In).peekable();
                    with_data.peek().is_some() && with_data.all(|target| lost.contains(&target))
                })
            }
            Some(chain) => chain.members.iter().all(|member| lost.contains(&member.target)),
            None => lost.contains(&TargetId(chain.0)),
        }
    }

    /// True if the target is a member of the chain, in whatever state, or its only target.
    #[must_use]
    pub fn is_member(&self, chain: ChainId, target: TargetId) -> bool {
        self.chains().get(&chain).map_or(chain == target.into(), |chain| chain.has(target))
    }

    /// The targets of the chain, in whatever state.
    #[must_use]
    pub fn members_of(&self, chain: ChainId) -> Vec<TargetId> {
        match self.chains().get(&chain) {
            Some(chain) => chain.members.iter().map(|member| member.target).collect(),
            None => vec![TargetId(chain.0)],
        }
    }

    /// The chains of these targets, for their data server.
    #[must_use]
    pub fn chains_of(&self, targets: &[TargetId]) -> Vec<data::Chain> {
        let map = self.map();
        let chains = self.chains();
        let own = chains.values().filter(|chain| targets.iter().any(|target| chain.has(*target)));
        own.map(|chain| to_wire(chain, &map)).collect()
    }
}

/// The chain as data servers are told it. A member without a data server is away, and has no address.
fn to_wire(chain: &Chain, map: &ClusterMap) -> data::Chain {
    let member = |member: &namespace::ChainMember| {
        let server = map.present_data_servers().find(|server| server.targets.contains(&member.target));
        let address = server.and_then(|server| server.addresses.first()).cloned();
        let state = match member.state {
            MemberState::In => data::MemberState::In,
            MemberState::Refilling => data::MemberState::Refilling,
            MemberState::Away | MemberState::Doubted => data::MemberState::Away,
        };
        data::Member { target: member.target.0, address: Bytes::from(address.unwrap_or_default()), state }
    };
    data::Chain {
        id: chain.id.0,
        version: chain.version,
        verifier: chain.verifier,
        members: chain.members.iter().map(member).collect(),
    }
}
