//! The part of the cluster map that files need: data servers, their targets, and the devices that name targets in order.

use crate::record::get;
use crate::step::{Step, Stop};
use crate::{DataServer, DataServerId, Device, DeviceId, Error, Reply, TargetId, cluster_map, keys};

/// A data server registered. Targets that it has now and another had before have moved with their disk.
pub(crate) fn put_data_server(step: &mut Step<'_>, server: &DataServer) -> Result<Reply, Stop> {
    let mut server = server.clone();
    let mut seen = std::collections::BTreeSet::new();
    server.targets.retain(|target| seen.insert(*target));

    let before: Option<DataServer> = get(step.view(), &keys::data_server(server.id))?;
    if before.as_ref() == Some(&server) {
        return Ok(Reply::Done);
    }
    for target in before.iter().flat_map(|before| &before.targets) {
        step.delete(&keys::target(*target))?;
    }
    for target in &server.targets {
        let key = keys::target(*target);
        let holder: Option<DataServerId> = get(step.view(), &key)?;
        if let Some(holder) = holder
            && let Some(mut holder) = get::<DataServer>(step.view(), &keys::data_server(holder))?
        {
            holder.targets.retain(|held| held != target);
            step.put(&keys::data_server(holder.id), &holder)?;
        }
        step.put(&key, &server.id)?;
    }
    step.put(&keys::data_server(server.id), &server)?;
    cluster_map::changed(step)?;
    Ok(Reply::Done)
}

/// The device of exactly these targets in this order; made when there is none.
pub(crate) fn define_device(step: &mut Step<'_>, targets: &[TargetId]) -> Result<Reply, Stop> {
    if targets.is_empty() {
        return Err(Error::NoDevice.into());
    }
    let list = keys::device_list(targets);
    if let Some(id) = get::<DeviceId>(step.view(), &list)? {
        return Ok(Reply::Device { id });
    }
    for target in targets {
        get::<DataServerId>(step.view(), &keys::target(*target))?.ok_or(Error::NoDevice)?;
    }
    let id = step.count(|counters| {
        let id = DeviceId(counters.next_device);
        counters.next_device += 1;
        id
    })?;
    step.put(&keys::device(id), &Device { id, targets: targets.to_vec() })?;
    step.put(&list, &id)?;
    Ok(Reply::Device { id })
}
