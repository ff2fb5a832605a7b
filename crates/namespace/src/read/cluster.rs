//! Reads of the cluster map: data servers, devices and tokens; and of deferred object operations.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use store::{StoreError, View};

use super::{collect, scan_records};
use crate::record::get;
use crate::{
    Chain, ChainId, ClusterMap, DataServer, DataServerId, DeferredOp, Device, DeviceId, JoinToken, Pool,
    TargetId, cluster_map, keys,
};

/// Device with this id.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn device(view: &dyn View, device: DeviceId) -> Result<Option<Device>, StoreError> {
    get(view, &keys::device(device))
}

/// All devices, by id.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn devices(view: &dyn View) -> Result<Vec<Device>, StoreError> {
    collect(view, &[keys::DEVICES])
}

/// All data servers, by id.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn data_servers(view: &dyn View) -> Result<Vec<DataServer>, StoreError> {
    collect(view, &[keys::DATA_SERVERS])
}

/// Chain with this id as it is now: members whose process has changed are away. None: a chain of one target, or
/// unknown.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn chain(view: &dyn View, id: ChainId) -> Result<Option<Chain>, StoreError> {
    crate::chain::present_chain(view, id)
}

/// All chains of several targets, by id, as they are now: see [`chain`].
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn chains(view: &dyn View) -> Result<Vec<Chain>, StoreError> {
    let all: Vec<Chain> = collect(view, &[keys::CHAINS])?;
    let servers = data_servers(view)?;
    let process =
        |server: &DataServer| server.targets.iter().map(|target| (*target, server.process)).collect();
    let processes: BTreeMap<TargetId, u64> = servers.iter().flat_map::<Vec<_>, _>(process).collect();
    Ok(all.into_iter().map(|chain| chain.with_processes(|target| processes.get(&target).copied())).collect())
}

/// Chains of which the target is a member, in whatever state.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn chains_of_target(view: &dyn View, target: TargetId) -> Result<Vec<ChainId>, StoreError> {
    let mut chains = Vec::new();
    super::scan_keys(view, &keys::of(keys::CHAINS_OF_TARGET, &[target.0]), |key| {
        chains.push(ChainId(keys::number(key, 9)));
        ControlFlow::Continue(())
    })?;
    Ok(chains)
}

/// Pools beside the default one, by id.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn pools(view: &dyn View) -> Result<Vec<Pool>, StoreError> {
    collect(view, &[keys::POOLS])
}

/// Cluster map.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn cluster_map(view: &dyn View) -> Result<ClusterMap, StoreError> {
    cluster_map::read_map(view)
}

/// All join tokens that are not removed yet, by id.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn join_tokens(view: &dyn View) -> Result<Vec<JoinToken>, StoreError> {
    collect(view, &[keys::JOIN_TOKENS])
}

/// Data server that has `target`.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn target_server(view: &dyn View, target: TargetId) -> Result<Option<DataServerId>, StoreError> {
    get(view, &keys::target(target))
}

/// The oldest `max` deferred operations.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn deferred_ops(view: &dyn View, max: usize) -> Result<Vec<DeferredOp>, StoreError> {
    deferred_ops_after(view, 0, max)
}

/// The oldest `max` deferred operations whose id is above `after`.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn deferred_ops_after(view: &dyn View, after: u64, max: usize) -> Result<Vec<DeferredOp>, StoreError> {
    let mut deferred = Vec::new();
    if max > 0 && after < u64::MAX {
        scan_records(view, &keys::deferred(after + 1), &keys::after(&[keys::DEFERRED]), |_, record| {
            deferred.push(record);
            if deferred.len() < max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
    }
    Ok(deferred)
}
