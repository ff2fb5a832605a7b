//! Cluster map: the servers with their administrative states, the service addresses, and the settings. Each
//! change increases its version, so that a server that follows the map detects it.
//!
//! Data servers with their targets have their own tables (`cluster.rs`), and belong to the map.

mod settings;

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use store::{StoreError, View};

pub(crate) use self::settings::Setting;
use self::settings::{check_settings, put_settings, set};
use crate::plan::{Plan, Stop};
use crate::record::get;
use crate::{
    Chain, DEFAULT_POOL, DataServer, DataServerId, Error, Pool, PoolId, PoolPolicy, Reply, TargetId, Time,
    cluster, keys, pools, read,
};

/// Maximum of servers of a cluster, of all kinds, removed ones included.
pub const NODES_MAX: usize = 4096;
/// Maximum of service addresses, which move between metaservers.
pub const SERVICE_ADDRESSES_MAX: usize = 256;
/// Maximum length of a name, an address or a version in bytes: they are shown in tables.
pub const NODE_TEXT_BYTES_MAX: usize = 255;
/// Maximum of targets that drain, were removed, or are lost, one row for each: years of disk replacement make fewer.
pub const DECLARED_TARGETS_MAX: usize = 4096;
/// Maximum of settings of a cluster, exports included: all are in every metaserver's memory, and look-ups
/// scan all exports.
pub const SETTINGS_MAX: u32 = 2048;
/// Maximum length of a setting's key in bytes: the key of an export has the number of a directory and a
/// network.
pub const SETTING_KEY_BYTES_MAX: usize = 255;
/// Maximum length of a setting's value in bytes: the value of an export has a path of 4 KiB at most, the
/// limit of clients, and some words.
pub const SETTING_VALUE_BYTES_MAX: usize = 4400;

/// Id of a server; each kind has ids of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum NodeKey {
    /// A member of the metadata group, by its id there.
    Metaserver(u64),
    /// A data server.
    DataServer(DataServerId),
}

/// Administrative state of a server, set by an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum NodeState {
    /// The server is joining.
    Joining,
    /// Normal operation.
    Serving,
    /// The server gets nothing new: no service address, no leadership, no new files.
    Draining,
    /// The server was removed, and cannot return by itself.
    Removed,
}

/// One server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Kind and id.
    pub key: NodeKey,
    /// Name, for operators.
    pub name: String,
    /// Address for clients and other servers: `10.0.0.5:2049`.
    pub address: String,
    /// Version of its program.
    pub version: String,
    /// Administrative state.
    pub state: NodeState,
}

/// A group of metaservers with one log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetadataGroup {
    /// Its number. There is one so far, 1, of all metaservers; it holds the name space and this map.
    pub id: u32,
}

/// Part of the map that does not belong to one server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapHead {
    /// Version, increased by one with each change.
    pub version: u64,
    /// Service addresses, which move between metaservers.
    pub service_addresses: Vec<IpAddr>,
    /// Id of the pool that was made last; 0: none was.
    pub last_pool: u16,
    /// Groups of metaservers.
    pub groups: Vec<MetadataGroup>,
    /// Number of servers in the map.
    pub nodes: u32,
    /// Number of settings in the map.
    pub settings: u32,
    /// Number of chains in the map.
    pub chains: u32,
    /// True if the map has the initial settings of the cluster.
    pub begun: bool,
}

impl Default for MapHead {
    fn default() -> Self {
        let (service_addresses, groups) = (vec![], vec![MetadataGroup { id: 1 }]);
        let (nodes, settings, chains) = (0, 0, 0);
        Self { version: 0, service_addresses, last_pool: 0, groups, nodes, settings, chains, begun: false }
    }
}

/// The whole map.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterMap {
    /// Part that does not belong to one server.
    pub head: MapHead,
    /// All servers, removed ones included.
    pub nodes: Vec<Node>,
    /// Data servers with their targets, removed ones included.
    pub data_servers: Vec<DataServer>,
    /// States of the targets that are not [`TargetState::InUse`]. Targets of removed data servers are lost, too.
    pub declared_targets: BTreeMap<TargetId, TargetState>,
    /// Pools beside the default one, by id. Their counts of directories are those of the map's last change.
    pub pools: Vec<Pool>,
    /// Pools of the targets that are not in the default one.
    pub pools_of_targets: BTreeMap<TargetId, PoolId>,
    /// Chains of several targets, by id, as they are recorded: also members whose process has changed since.
    pub chains: Vec<Chain>,
    /// Settings of the whole cluster, by key. The metaservers interpret the values.
    pub settings: BTreeMap<String, String>,
}

impl ClusterMap {
    /// Server with this key, if it is known.
    #[must_use]
    pub fn node(&self, key: NodeKey) -> Option<&Node> {
        self.nodes.iter().find(|node| node.key == key)
    }

    /// Administrative state of the server; an unknown server is joining.
    #[must_use]
    pub fn state(&self, key: NodeKey) -> NodeState {
        self.node(key).map_or(NodeState::Joining, |node| node.state)
    }

    /// Data servers that are not removed.
    pub fn present_data_servers(&self) -> impl Iterator<Item = &DataServer> {
        self.data_servers.iter().filter(|server| !self.is_removed(server.id))
    }

    /// Pool of a target.
    #[must_use]
    pub fn pool_of(&self, target: TargetId) -> PoolId {
        self.pools_of_targets.get(&target).copied().unwrap_or_default()
    }

    /// State of a target, by the word of an operator.
    #[must_use]
    pub fn target_state(&self, target: TargetId) -> TargetState {
        self.declared_targets.get(&target).copied().unwrap_or(TargetState::InUse)
    }

    /// Targets that nothing waits for, by the word of an operator.
    pub fn lost_targets(&self) -> impl Iterator<Item = TargetId> + '_ {
        let is_lost = |(_, state): &(&TargetId, &TargetState)| state.is_lost();
        self.declared_targets.iter().filter(is_lost).map(|(target, _)| *target)
    }

    /// True if data leave the target, and nothing new is placed there: it drains, or its data server does.
    #[must_use]
    pub fn is_draining(&self, target: TargetId, server: DataServerId) -> bool {
        self.target_state(target) == TargetState::Draining
            || self.state(NodeKey::DataServer(server)) >= NodeState::Draining
    }

    /// Pool with this name, if there is one.
    #[must_use]
    pub fn pool_named(&self, name: &str) -> Option<PoolId> {
        let is_it = |pool: &&Pool| pool.name == name;
        let named = self.pools.iter().find(is_it).map(|pool| pool.id);
        named.or((name == DEFAULT_POOL).then_some(PoolId::DEFAULT))
    }

    /// What a pool says itself.
    #[must_use]
    pub fn pool_policy(&self, id: PoolId) -> PoolPolicy {
        self.pools.iter().find(|pool| pool.id == id).map(|pool| pool.policy).unwrap_or_default()
    }

    /// Name of a pool; that of the default one if it was removed.
    #[must_use]
    pub fn pool_name(&self, id: PoolId) -> &str {
        self.pools.iter().find(|pool| pool.id == id).map_or(DEFAULT_POOL, |pool| &pool.name)
    }

    /// True if the data server was removed: the objects on its targets are lost.
    #[must_use]
    pub fn is_removed(&self, server: DataServerId) -> bool {
        self.state(NodeKey::DataServer(server)) == NodeState::Removed
    }
}

/// A change of the map.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MapChange {
    /// A server reports its name, address and version. The states draining and removed stay.
    Put(Node),
    /// New administrative state of a server.
    State(NodeKey, NodeState),
    /// Replaces all service addresses.
    ServiceAddresses(Vec<IpAddr>),
    /// New state of a target. `NotEmpty` for the removal of a member of chains.
    Target(TargetId, TargetState),
    /// Adds a service address; `Exists` if it is one already.
    AddServiceAddress(IpAddr),
    /// Removes a service address; `NoEntry` if it is none.
    RemoveServiceAddress(IpAddr),
    /// Makes an empty pool with this name; `Exists` if there is one.
    MakePool(String),
    /// Removes a pool; `NotEmpty` if it has targets, or a directory names it.
    RemovePool(PoolId),
    /// What holds in a pool beside the default one.
    PoolPolicy(PoolId, PoolPolicy),
    /// Puts targets into a pool, the default one, too, and out of the ones that they are in; by this version of the map.
    PoolTargets(PoolId, Vec<TargetId>, u64),
    /// Sets these settings, all or none; a value of none removes the key.
    Set(Vec<(String, Option<String>)>),
    /// Initial content of a cluster's map. Has no effect if the map has it already.
    Begin {
        /// Keys and values.
        settings: Vec<(String, String)>,
        /// Service addresses, which move between metaservers.
        service_addresses: Vec<IpAddr>,
    },
}

/// Declaration of an operator about one target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TargetState {
    /// None: the target is used if its data server has it, and waited for if not.
    InUse,
    /// It gets nothing new, and its data move to others.
    Draining,
    /// It was drained, and has no data. A target that is there still is not used.
    Removed,
    /// The objects are lost: operations do not wait for them, and no new file is placed there.
    Lost,
}

impl TargetState {
    /// True if nothing waits for the target's data.
    #[must_use]
    pub fn is_lost(self) -> bool {
        matches!(self, Self::Removed | Self::Lost)
    }
}

/// Record of a target that is not [`TargetState::InUse`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeclaredTarget {
    pub target: TargetId,
    pub state: TargetState,
    /// Time of the declaration.
    pub since: Time,
}

/// Map in a view.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub(crate) fn read_map(view: &dyn View) -> Result<ClusterMap, StoreError> {
    Ok(ClusterMap {
        head: head(view)?,
        nodes: read::collect(view, &[keys::NODES])?,
        data_servers: read::data_servers(view)?,
        declared_targets: read::collect::<DeclaredTarget>(view, &[keys::DECLARED_TARGETS])?
            .into_iter()
            .map(|declared| (declared.target, declared.state))
            .collect(),
        pools: read::pools(view)?,
        pools_of_targets: pools::pools_of_targets(view)?,
        chains: read::collect(view, &[keys::CHAINS])?,
        settings: read::collect::<Setting>(view, &[keys::SETTINGS])?
            .into_iter()
            .map(|s| (s.key, s.value))
            .collect(),
    })
}

pub(crate) fn head(view: &dyn View) -> Result<MapHead, StoreError> {
    Ok(get(view, &keys::map_head())?.unwrap_or_default())
}

/// Notes a change of the map.
pub(crate) fn changed(plan: &mut Plan<'_>) -> Result<(), Stop> {
    let mut head = head(plan.view())?;
    head.version += 1;
    Ok(plan.put(&keys::map_head(), &head)?)
}

pub(crate) fn change(plan: &mut Plan<'_>, change: &MapChange) -> Result<Reply, Stop> {
    match change {
        MapChange::Put(node) => put(plan, node),
        MapChange::State(key, state) => {
            let node: Node = get(plan.view(), &keys::node(*key))?.ok_or(Error::NoEntry)?;
            put_if_new(plan, Node { state: *state, ..node })
        }
        MapChange::ServiceAddresses(addresses) => set_service_addresses(plan, addresses.clone()),
        MapChange::AddServiceAddress(address) => {
            let mut addresses = head(plan.view())?.service_addresses;
            if addresses.contains(address) {
                return Err(Error::Exists.into());
            }
            addresses.push(*address);
            set_service_addresses(plan, addresses)
        }
        MapChange::RemoveServiceAddress(address) => {
            let mut addresses = head(plan.view())?.service_addresses;
            let before = addresses.len();
            addresses.retain(|other| other != address);
            if addresses.len() == before {
                return Err(Error::NoEntry.into());
            }
            set_service_addresses(plan, addresses)
        }
        MapChange::Target(target, state) => cluster::declare(plan, *target, *state),
        MapChange::MakePool(name) => pools::make(plan, name),
        MapChange::RemovePool(id) => pools::remove(plan, *id),
        MapChange::PoolPolicy(id, policy) => pools::set_policy(plan, *id, *policy),
        MapChange::PoolTargets(id, targets, version) => pools::put_targets(plan, *id, targets, *version),
        MapChange::Set(changes) => set(plan, changes),
        MapChange::Begin { settings, service_addresses } => begin(plan, settings, service_addresses),
    }
}

fn check_service_addresses(addresses: &[IpAddr]) -> Result<(), Error> {
    let distinct: std::collections::BTreeSet<_> = addresses.iter().collect();
    let fits = distinct.len() == addresses.len() && addresses.len() <= SERVICE_ADDRESSES_MAX;
    if fits { Ok(()) } else { Err(Error::Invalid) }
}

fn set_service_addresses(plan: &mut Plan<'_>, addresses: Vec<IpAddr>) -> Result<Reply, Stop> {
    check_service_addresses(&addresses)?;
    let mut head = head(plan.view())?;
    if head.service_addresses != addresses {
        head.service_addresses = addresses;
        head.version += 1;
        plan.put(&keys::map_head(), &head)?;
    }
    Ok(Reply::Done)
}

fn begin(
    plan: &mut Plan<'_>,
    settings: &[(String, String)],
    service_addresses: &[IpAddr],
) -> Result<Reply, Stop> {
    let before = head(plan.view())?;
    if before.begun {
        return Ok(Reply::Done);
    }
    check_service_addresses(service_addresses)?;
    let all: Vec<_> = settings.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect();
    let (changing, settings) = check_settings(plan.view(), &all)?;
    let (version, service_addresses) = (before.version + 1, service_addresses.to_vec());
    plan.put(&keys::map_head(), &MapHead { version, service_addresses, settings, begun: true, ..before })?;
    put_settings(plan, changing)?;
    Ok(Reply::Done)
}

fn put(plan: &mut Plan<'_>, node: &Node) -> Result<Reply, Stop> {
    let texts = [&node.name, &node.address, &node.version];
    if texts.iter().any(|text| text.len() > NODE_TEXT_BYTES_MAX) {
        return Err(Error::Invalid.into());
    }
    let known: Option<Node> = get(plan.view(), &keys::node(node.key))?;
    if known.is_none() && head(plan.view())?.nodes as usize >= NODES_MAX {
        return Err(Error::Invalid.into());
    }
    let said = known.as_ref().map(|node| node.state).filter(|state| *state >= NodeState::Draining);
    if known.is_none() {
        let mut head = head(plan.view())?;
        head.nodes += 1;
        plan.put(&keys::map_head(), &head)?;
    }
    put_if_new(plan, Node { state: said.unwrap_or(node.state), ..node.clone() })
}

fn put_if_new(plan: &mut Plan<'_>, node: Node) -> Result<Reply, Stop> {
    let key = keys::node(node.key);
    if get::<Node>(plan.view(), &key)?.as_ref() != Some(&node) {
        plan.put(&key, &node)?;
        changed(plan)?;
    }
    Ok(Reply::Done)
}
