//! Part of the cluster map for file data: data servers, their targets, and devices, which are ordered lists
//! of chains.

use std::ops::ControlFlow;

use store::{StoreError, View};

use crate::plan::{Plan, Stop};
use crate::record::get;
use crate::{
    ChainId, DataServer, DataServerId, Device, DeviceId, Error, LOST_TARGETS_MAX, Reply, TargetId,
    TargetState, Time, chain, cluster_map, keys, read,
};

/// Registers a data server. Targets that another server had before have moved with their disk.
pub(crate) fn put_data_server(plan: &mut Plan<'_>, server: &DataServer) -> Result<Reply, Stop> {
    let mut server = server.clone();
    let mut seen = std::collections::BTreeSet::new();
    server.targets.retain(|target| seen.insert(*target));

    let before: Option<DataServer> = get(plan.view(), &keys::data_server(server.id))?;
    if before.as_ref() == Some(&server) {
        return Ok(Reply::Done);
    }
    for target in before.iter().flat_map(|before| &before.targets) {
        plan.delete(&keys::target(*target));
    }
    for target in &server.targets {
        let key = keys::target(*target);
        let holder: Option<DataServerId> = get(plan.view(), &key)?;
        if let Some(holder) = holder
            && let Some(mut holder) = get::<DataServer>(plan.view(), &keys::data_server(holder))?
        {
            holder.targets.retain(|held| held != target);
            plan.put(&keys::data_server(holder.id), &holder)?;
        }
        plan.put(&key, &server.id)?;
    }
    plan.put(&keys::data_server(server.id), &server)?;
    cluster_map::changed(plan)?;
    Ok(Reply::Done)
}

/// Returns the device of exactly these chains in this order; makes it if there is none.
pub(crate) fn define_device(plan: &mut Plan<'_>, chains: &[ChainId]) -> Result<Reply, Stop> {
    if chains.is_empty() {
        return Err(Error::NoDevice.into());
    }
    let list = keys::device_list(chains);
    if let Some(id) = get::<DeviceId>(plan.view(), &list)? {
        return Ok(Reply::Device { id });
    }
    for id in chains {
        if !chain::is_known(plan.view(), *id)? {
            return Err(Error::NoDevice.into());
        }
    }
    let id = plan.count(|counters| {
        let id = DeviceId(counters.next_device);
        counters.next_device += 1;
        id
    })?;
    plan.put(&keys::device(id), &Device { id, chains: chains.to_vec() })?;
    plan.put(&list, &id)?;
    Ok(Reply::Device { id })
}

/// Declares a target lost, or in use again. It need not be on a data server now, but must be known.
pub(crate) fn declare(plan: &mut Plan<'_>, target: TargetId, state: TargetState) -> Result<Reply, Stop> {
    let key = keys::lost_target(target);
    let is_lost = get::<Time>(plan.view(), &key)?.is_some();
    match state {
        TargetState::InUse if is_lost => plan.delete(&key),
        TargetState::Lost if !is_lost => {
            if !is_known(plan.view(), target)? {
                return Err(Error::NoDevice.into());
            }
            if lost_targets(plan.view())?.len() >= LOST_TARGETS_MAX {
                return Err(Error::Invalid.into());
            }
            let now = plan.now();
            plan.put(&key, &now)?;
        }
        TargetState::InUse | TargetState::Lost => return Ok(Reply::Done),
    }
    cluster_map::changed(plan)?;
    Ok(Reply::Done)
}

fn is_known(view: &dyn View, target: TargetId) -> Result<bool, StoreError> {
    if get::<DataServerId>(view, &keys::target(target))?.is_some() {
        return Ok(true);
    }
    let is_named = read::devices(view)?.iter().any(|device| device.chains.contains(&target.into()));
    Ok(is_named || !read::chains_of_target(view, target)?.is_empty())
}

/// Targets declared lost, by id.
pub(crate) fn lost_targets(view: &dyn View) -> Result<Vec<TargetId>, StoreError> {
    let mut targets = Vec::new();
    read::scan_keys(view, &[keys::LOST_TARGETS], |key| {
        targets.push(TargetId(keys::number(key, 1)));
        ControlFlow::Continue(())
    })?;
    Ok(targets)
}
