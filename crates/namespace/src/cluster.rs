//! Part of the cluster map for file data: data servers, their targets, and devices, which are ordered lists
//! of chains.

use std::ops::ControlFlow;

use store::{StoreError, View};

use crate::cluster_map::DeclaredTarget;
use crate::plan::{Plan, Stop};
use crate::record::get;
use crate::{
    ChainId, DECLARED_TARGETS_MAX, DataServer, DataServerId, Device, DeviceId, Error, Reply, TargetId,
    TargetState, chain, cluster_map, keys, pools, read,
};

/// Registers a data server. Targets that another server had before have moved with their disk.
pub(crate) fn put_data_server(
    plan: &mut Plan<'_>,
    server: &DataServer,
    known: Option<u64>,
) -> Result<Reply, Stop> {
    let mut server = server.clone();
    let mut seen = std::collections::BTreeSet::new();
    server.targets.retain(|target| seen.insert(*target));

    let before: Option<DataServer> = get(plan.view(), &keys::data_server(server.id))?;
    if before.as_ref() == Some(&server) {
        return Ok(Reply::Done);
    }
    // Another run has registered meanwhile: this may be one that has ended.
    if before.as_ref().is_some_and(|before| before.process != server.process && Some(before.process) != known)
    {
        return Err(Error::Delay.into());
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

/// Declares the state of a target. It need not be on a data server now, but must be known.
pub(crate) fn declare(plan: &mut Plan<'_>, target: TargetId, state: TargetState) -> Result<Reply, Stop> {
    let key = keys::declared_target(target);
    let before = get::<DeclaredTarget>(plan.view(), &key)?.map(|declared| declared.state);
    if before.unwrap_or(TargetState::InUse) == state {
        return Ok(Reply::Done);
    }
    match state {
        // What is lost cannot move, and what is in use may have new data by now.
        TargetState::Draining if before.is_some() => return Err(Error::Invalid.into()),
        TargetState::Removed if before != Some(TargetState::Draining) => return Err(Error::Invalid.into()),
        TargetState::Removed if !read::chains_of_target(plan.view(), target)?.is_empty() => {
            return Err(Error::NotEmpty.into());
        }
        _ => {}
    }
    if state == TargetState::InUse {
        plan.delete(&key);
    } else {
        if before.is_none() {
            check_new_declaration(plan.view(), target)?;
        }
        if state == TargetState::Removed {
            pools::forget_target(plan, target)?;
        }
        let since = plan.now();
        plan.put(&key, &DeclaredTarget { target, state, since })?;
    }
    cluster_map::changed(plan)?;
    Ok(Reply::Done)
}

fn check_new_declaration(view: &dyn View, target: TargetId) -> Result<(), Stop> {
    if !is_known(view, target)? {
        return Err(Error::NoDevice.into());
    }
    let mut count = 0;
    read::scan_keys(view, &[keys::DECLARED_TARGETS], |_| {
        count += 1;
        ControlFlow::Continue(())
    })?;
    if count >= DECLARED_TARGETS_MAX { Err(Error::Invalid.into()) } else { Ok(()) }
}

fn is_known(view: &dyn View, target: TargetId) -> Result<bool, StoreError> {
    if get::<DataServerId>(view, &keys::target(target))?.is_some() {
        return Ok(true);
    }
    let is_named = read::devices(view)?.iter().any(|device| device.chains.contains(&target.into()));
    Ok(is_named || !read::chains_of_target(view, target)?.is_empty())
}
