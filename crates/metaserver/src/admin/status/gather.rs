//! Status from the cluster map, the members of the group, and the heartbeats of data servers.
//!
//! The status needs no read barrier and no lock of the state machine, so it works also without a leader.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use cluster::{AdminError, GroupReport, NodeReport, Refilling, TargetReport, id_text};
use namespace::{Chain, ChainId, DataServerId, MemberState, NodeKey, NodeState, TargetId, read};
use replica::NodeId;
use wire::data::TargetCondition;

use super::{
    Chains, DataServer, Metaserver as Member, Refill, Refused, ServiceAddress, States, Status, Target, health,
};
use crate::Metaserver;
use crate::admin::stripe::server_failed;

/// Maximum of counted deferred object operations: a longer queue is shown as this long.
const DEFERRED_COUNTED_MAX: usize = 10_000;

impl Metaserver {
    /// Returns the status of the cluster as known to this metaserver; `version` is the version of its
    /// program.
    ///
    /// # Errors
    /// [`AdminError::Failed`] when the store cannot be read.
    pub async fn status(&self) -> Result<Status, AdminError> {
        let group = self.cluster.ask_group_report().await;
        let nodes = self.cluster.nodes_with(group.as_ref())?;
        let status = self.machine.replica.status();
        let view = self.machine.view().map_err(server_failed)?;
        let clients = read::clients(&*view)?;
        let mut sessions = 0;
        for client in &clients {
            sessions += read::sessions(&*view, *client)?.len() as u64;
        }
        let states = read::state_counts(&*view)?;
        let name = |id: NodeId| {
            let key = NodeKey::Metaserver(id);
            nodes.iter().find(|node| node.key == key).map_or_else(|| hex(id), |node| node.name.clone())
        };
        let present = || nodes.iter().filter(|node| node.state != NodeState::Removed);
        let consensus = |id: NodeId| {
            let member = status.members.iter().find(|(member, ..)| *member == id);
            member.map_or_else(String::new, |(_, member, _)| member.address.clone())
        };
        let reports = self.cluster.data_servers.report();
        let mut deferred = 0;
        for record in read::deferred_ops(&*view, DEFERRED_COUNTED_MAX)? {
            deferred += u64::from(!self.data.waits_for_lost(&record).map_err(server_failed)?);
        }
        let map = self.cluster.map();
        let single: BTreeSet<ChainId> = read::devices(&*view)?.into_iter().flat_map(|d| d.chains).collect();
        // By the record: members of an ended process count, too.
        let only = |chain: &Chain| {
            let mut with_data = chain.with_state(MemberState::In);
            with_data.next().filter(|_| with_data.next().is_none())
        };
        let sole: BTreeSet<TargetId> = map.chains.iter().filter_map(only).collect();
        let is_sole = |target: &TargetId| single.contains(&ChainId::from(*target)) || sole.contains(target);
        let has_sole_copies = |id: DataServerId| {
            let server = map.data_servers.iter().find(|server| server.id == id);
            server.is_some_and(|server| server.targets.iter().any(is_sole))
        };
        let mut status = Status {
            role: "metaserver".into(),
            version: self.version(),
            cluster: self.cluster.id.iter().map(|byte| format!("{byte:02x}")).collect(),
            asked: name(status.id),
            leader: status.leader.map(name),
            term: status.term,
            // The monotonic clock begins at the start of the process.
            uptime_seconds: self.machine.clock.monotonic().as_secs(),
            clients: clients.len() as u64,
            sessions,
            states: States {
                opens: states.opens,
                locks: states.locks,
                layouts: states.layouts,
                delegations: states.delegations,
            },
            inodes: read::counts(&*view)?,
            deferred_ops: deferred,
            proxied_read_bytes: self.metrics.file_bytes_read.get(),
            proxied_written_bytes: self.metrics.file_bytes_written.get(),
            metaservers: present()
                .filter_map(|node| match node.key {
                    NodeKey::Metaserver(id) => Some(member(id, consensus(id), node)),
                    NodeKey::DataServer(_) => None,
                })
                .collect(),
            service_addresses: group.as_ref().map(|group| service_addresses(group, &nodes)),
            data_servers: present()
                .filter_map(|node| match node.key {
                    NodeKey::DataServer(id) => {
                        let targets = reports.iter().filter(|target| target.server == id);
                        let has_sole_copies = has_sole_copies(id);
                        let registered = map.data_servers.iter().find(|server| server.id == id);
                        let zone = registered.map(|server| server.zone.clone()).unwrap_or_default();
                        Some(DataServer { has_sole_copies, zone, ..data_server(id.0, targets, node) })
                    }
                    NodeKey::Metaserver(_) => None,
                })
                .collect(),
            chains: {
                let in_doubt = self.cluster.map().chains.iter().filter(|chain| chain.is_in_doubt()).count();
                let mut all = BTreeMap::clone(&self.cluster.chains());
                // Nothing waits for these.
                all.retain(|id, _| !self.cluster.is_chain_lost(*id));
                let counted = chains(&all, self.cluster.default_stripe().copies);
                let in_one_zone = self.cluster.chains_in_one_zone() as u64;
                let is_elsewhere = |chain: &&Chain| {
                    chain.members.iter().any(|member| map.pool_of(member.target) != chain.pool)
                };
                let in_other_pools = all.values().filter(is_elsewhere).count() as u64;
                let refill = refill(&all, self.cluster.data_servers.refilling());
                Chains { in_doubt: in_doubt as u64, in_one_zone, in_other_pools, refill, ..counted }
            },
            pools_without_place: self.cluster.pools_without_place()?,
            drains_without_place: self.cluster.drains_without_place(),
            refused: self.refused_clients(),
            commands_given_up: replica::faults(),
            ..Status::default()
        };
        status.health = health::assess(&status);
        Ok(status)
    }

    fn refused_clients(&self) -> Refused {
        let (count, last) = self.admission.refusals().seen();
        Refused {
            count,
            last_address: last.map(|last| last.address.to_string()),
            last_reason: last.map(|last| last.reason.word().into()),
        }
    }

    /// Version of this metaserver's program, from the cluster map.
    fn version(&self) -> String {
        let map = self.cluster.map();
        let this = map.node(NodeKey::Metaserver(self.machine.replica.status().id));
        this.map_or_else(String::new, |node| node.version.clone())
    }
}

fn member(id: NodeId, consensus: String, node: &NodeReport) -> Member {
    Member {
        id: hex(id),
        name: node.name.clone(),
        consensus,
        role: node.role.into(),
        state: state_word(node.state).into(),
        liveness: node.liveness,
        seen_ms: node.seen.map(|ago| ago.as_millis() as u64),
        lag: node.lag,
        version: node.version.clone(),
        clock_ahead_ms: node.clock_ahead_ms,
        out_of_service: node.out_of_service,
    }
}

fn data_server<'a>(
    id: u64,
    targets: impl Iterator<Item = &'a TargetReport>,
    node: &NodeReport,
) -> DataServer {
    DataServer {
        id: hex(id),
        name: node.name.clone(),
        addresses: node.addresses.clone(),
        zone: String::new(),
        state: state_word(node.state).into(),
        liveness: node.liveness,
        seen_ms: node.seen.map(|ago| ago.as_millis() as u64),
        version: node.version.clone(),
        clock_ahead_ms: node.clock_ahead_ms,
        has_sole_copies: false,
        targets: targets.map(target).collect(),
    }
}

fn chains(all: &BTreeMap<ChainId, Chain>, copies_of_new_files: u8) -> Chains {
    let with = |state| all.values().filter(|chain| chain.with_state(state).next().is_some()).count() as u64;
    let is_whole = |chain: &&Chain| chain.with_state(MemberState::In).count() >= usize::from(chain.copies);
    let is_refilled = |chain: &&Chain| chain.with_state(MemberState::Refilling).next().is_some();
    let moving = all.values().filter(is_whole).filter(is_refilled).count() as u64;
    Chains {
        count: all.len() as u64,
        refilling: with(MemberState::Refilling) - moving,
        moving,
        incomplete: all.values().filter(|chain| is_incomplete(chain)).count() as u64,
        waiting: all.len() as u64 - with(MemberState::In),
        in_doubt: 0,
        in_one_zone: 0,
        in_other_pools: 0,
        copies_of_new_files,
        refill: Refill::default(),
    }
}

/// How far the refilling is. Chains whose members are still to be replaced have as many bytes as the others, about.
fn refill(all: &BTreeMap<ChainId, Chain>, refilling: Refilling) -> Refill {
    let is_next =
        |chain: &&Chain| is_incomplete(chain) && chain.with_state(MemberState::Refilling).next().is_none();
    let next = all.values().filter(is_next).count() as u64;
    Refill {
        done_bytes: refilling.done,
        left_bytes: refilling.left.saturating_add(refilling.bytes_of_chain().saturating_mul(next)),
        bytes_per_second: refilling.per_second,
    }
}

/// True if a member is away, or if there are fewer members than copies.
fn is_incomplete(chain: &Chain) -> bool {
    let is_away = chain.with_state(MemberState::Away).next().is_some();
    is_away || chain.members.len() < usize::from(chain.copies)
}

fn target(report: &TargetReport) -> Target {
    Target {
        id: hex(report.target.0),
        path: report.path.clone(),
        total_bytes: report.total_bytes,
        free_bytes: report.free_bytes,
        objects: report.objects,
        trash_bytes: report.trash_bytes,
        reserve_bytes: report.reserve_bytes,
        state: if report.alive { condition_word(report.condition) } else { "silent" }.into(),
    }
}

/// Word for a target's condition.
#[must_use]
pub fn condition_word(condition: TargetCondition) -> &'static str {
    match condition {
        TargetCondition::Ok => "ok",
        TargetCondition::Damaged => "damaged",
        TargetCondition::Full => "full",
        TargetCondition::ReadOnly => "read-only",
        TargetCondition::Failed => "failed",
        TargetCondition::Missing => "missing",
    }
}

fn service_addresses(group: &GroupReport, nodes: &[NodeReport]) -> Vec<ServiceAddress> {
    let name = |key| {
        let node = nodes.iter().find(|node| node.key == key);
        node.map_or_else(|| id_text(key), |node| node.name.clone())
    };
    let row = |address: &IpAddr, holder: Option<NodeKey>| ServiceAddress {
        address: address.to_string(),
        holder: holder.map(name),
        is_of_data_servers: false,
    };
    let of_metaservers =
        |(address, holder): (&IpAddr, &Option<NodeId>)| row(address, holder.map(NodeKey::Metaserver));
    let of_data_servers = |(address, holder): (&IpAddr, &Option<DataServerId>)| ServiceAddress {
        is_of_data_servers: true,
        ..row(address, holder.map(NodeKey::DataServer))
    };
    let data_addresses = group.data_addresses.iter().map(of_data_servers);
    group.addresses.iter().map(of_metaservers).chain(data_addresses).collect()
}

/// Word for an administrative state.
#[must_use]
pub fn state_word(state: NodeState) -> &'static str {
    match state {
        NodeState::Joining => "joining",
        NodeState::Serving => "serving",
        NodeState::Draining => "draining",
        NodeState::Removed => "removed",
    }
}

fn hex(id: u64) -> String {
    format!("{id:016x}")
}
