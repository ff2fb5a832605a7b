//! Keys of the cluster: data servers, targets, chains, devices, pools, the cluster map, nodes that boot.

use super::{
    BOOT_GROUPS, BOOT_MACS, BOOT_NODES, CHAINS, CHAINS_OF_TARGET, DATA_SERVERS, DECLARED_TARGETS,
    DEVICE_LISTS, DEVICES, INCARNATION, JOIN_TOKENS, Key, MAP, NODES, POOLS, POOLS_OF_TARGETS, SETTINGS,
    TARGETS, of, with_bytes,
};
use crate::{ChainId, DataServerId, DeviceId, NodeKey, PoolId, TargetId};

pub(crate) fn data_server(id: DataServerId) -> Key {
    of(DATA_SERVERS, &[id.0])
}

pub(crate) fn target(target: TargetId) -> Key {
    of(TARGETS, &[target.0])
}

pub(crate) fn device(device: DeviceId) -> Key {
    of(DEVICES, &[device.0])
}

pub(crate) fn device_list(chains: &[ChainId]) -> Key {
    let chains: Vec<u64> = chains.iter().map(|chain| chain.0).collect();
    of(DEVICE_LISTS, &chains)
}

pub(crate) fn map_head() -> Key {
    vec![MAP]
}

pub(crate) fn incarnation() -> Key {
    vec![INCARNATION]
}

pub(crate) fn node(node: NodeKey) -> Key {
    match node {
        NodeKey::Metaserver(id) => of(NODES, &[0, id]),
        NodeKey::DataServer(DataServerId(id)) => of(NODES, &[1, id]),
    }
}

pub(crate) fn declared_target(target: TargetId) -> Key {
    of(DECLARED_TARGETS, &[target.0])
}

pub(crate) fn pool(id: PoolId) -> Key {
    of(POOLS, &[id.0.into()])
}

pub(crate) fn pool_of_target(target: TargetId) -> Key {
    of(POOLS_OF_TARGETS, &[target.0])
}

pub(crate) fn chain(id: ChainId) -> Key {
    of(CHAINS, &[id.0])
}

pub(crate) fn chain_of_target(target: TargetId, id: ChainId) -> Key {
    of(CHAINS_OF_TARGET, &[target.0, id.0])
}

pub(crate) fn join_token(id: u64) -> Key {
    of(JOIN_TOKENS, &[id])
}

pub(crate) fn boot_group(name: &str) -> Key {
    with_bytes(BOOT_GROUPS, &[], name.as_bytes())
}

pub(crate) fn boot_node(name: &str) -> Key {
    with_bytes(BOOT_NODES, &[], name.as_bytes())
}

pub(crate) fn boot_mac(mac: [u8; 6]) -> Key {
    with_bytes(BOOT_MACS, &[], &mac)
}

pub(crate) fn setting(key: &str) -> Key {
    with_bytes(SETTINGS, &[], key.as_bytes())
}
