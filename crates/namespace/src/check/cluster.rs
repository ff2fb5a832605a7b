//! Deferred object operations, data servers, devices.

use std::collections::BTreeMap;

use store::{StoreError, View};

use super::{Findings, marks, table};
use crate::cluster_map::{DeclaredTarget, Setting};
use crate::record::Counters;
use crate::{
    Chain, DataServer, DataServerId, DeferredKind, DeferredOp, Device, DeviceId, Incarnation, Inode, InodeId,
    JoinToken, MapHead, MemberState, Node, Pool, PoolId, Snapshots, TargetState, keys, read,
};

pub(super) fn check(
    view: &dyn View,
    counters: &Counters,
    inodes: &BTreeMap<InodeId, Inode>,
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let (mut truncations, mut fences) = (BTreeMap::new(), BTreeMap::new());
    let mut pending = BTreeMap::new();
    for (key, deferred) in table::<DeferredOp>(view, keys::DEFERRED, findings)? {
        findings.expect(key == keys::deferred(deferred.id) && deferred.id < counters.next_deferred, || {
            format!("{deferred:?} is under {key:02x?}")
        });
        let inode = inodes.get(&deferred.inode);
        match deferred.kind {
            DeferredKind::Truncate(_) | DeferredKind::Fence => {
                let agrees = inode.is_some_and(|inode| {
                    inode.generation == deferred.generation && inode.columns() == Some(deferred.layout)
                });
                findings.expect(agrees, || format!("{deferred:?} is of {inode:?}"));
                let (index, key) = match deferred.kind {
                    DeferredKind::Fence => (&mut fences, keys::fence(deferred.inode)),
                    _ => (&mut truncations, keys::truncate(deferred.inode)),
                };
                let others = [index.insert(key, deferred.id), pending.insert(deferred.inode, deferred.id)];
                if let Some(other) = others.into_iter().flatten().next() {
                    findings.add(format!("{deferred:?} is pending beside operation {other}"));
                }
            }
            DeferredKind::Remove => {
                let owner = read::owner(&Snapshots(view), deferred.inode)?;
                findings.expect(owner.is_none(), || format!("{deferred:?}, and the objects are of {owner:?}"))
            }
        }
    }
    let indexed = table::<u64>(view, keys::TRUNCATIONS, findings)?;
    findings.expect(indexed == truncations, || {
        format!("files have truncations {indexed:02x?}, there are {truncations:02x?}")
    });
    let indexed = table::<u64>(view, keys::FENCES, findings)?;
    findings
        .expect(indexed == fences, || format!("files have fences {indexed:02x?}, there are {fences:02x?}"));

    let mut held = BTreeMap::new();
    for (key, server) in table::<DataServer>(view, keys::DATA_SERVERS, findings)? {
        findings.expect(key == keys::data_server(server.id), || format!("{server:?} is under {key:02x?}"));
        for target in &server.targets {
            if let Some(other) = held.insert(keys::target(*target), server.id) {
                findings.add(format!("{target:?} is held by {other:?} and by {:?}", server.id));
            }
        }
    }
    let targets = table::<DataServerId>(view, keys::TARGETS, findings)?;
    findings.expect(targets == held, || format!("targets are at {targets:02x?}, not at {held:02x?}"));

    let nodes = table::<Node>(view, keys::NODES, findings)?;
    for (key, node) in &nodes {
        findings.expect(*key == keys::node(node.key), || format!("{node:?} is under {key:02x?}"));
    }
    let heads = table::<MapHead>(view, keys::MAP, findings)?;
    let head = heads.get(&keys::map_head()).cloned().unwrap_or_default();
    findings.expect(head.nodes as usize == nodes.len(), || format!("{} nodes, and {head:?}", nodes.len()));
    let settings = table::<Setting>(view, keys::SETTINGS, findings)?;
    for (key, setting) in &settings {
        findings.expect(*key == keys::setting(&setting.key), || format!("{setting:?} is under {key:02x?}"));
    }
    findings.expect(head.settings as usize == settings.len(), || {
        format!("{} settings, and {head:?}", settings.len())
    });
    findings
        .expect(held.is_empty() || head.version > 0, || "data servers, and a map without a version".into());

    let incarnations = table::<Incarnation>(view, keys::INCARNATION, findings)?;
    let incarnation = incarnations.get(&keys::incarnation());
    let is_sound = incarnation.is_some_and(|found| found.epoch > 0 && found.id != [0; 16]);
    findings
        .expect(is_sound && incarnations.len() == 1, || format!("the incarnation is {incarnations:02x?}"));
    for (key, declared) in table::<DeclaredTarget>(view, keys::DECLARED_TARGETS, findings)? {
        let is_sound = key == keys::declared_target(declared.target) && declared.state != TargetState::InUse;
        findings.expect(is_sound, || format!("{declared:?} is under {key:02x?}"));
    }
    for (key, token) in table::<JoinToken>(view, keys::JOIN_TOKENS, findings)? {
        findings.expect(key == keys::join_token(token.id), || format!("{token:?} is under {key:02x?}"));
    }

    pools(view, &head, inodes, findings)?;
    chains(view, &head, findings)?;
    let mut lists = BTreeMap::new();
    for (key, device) in table::<Device>(view, keys::DEVICES, findings)? {
        findings.expect(key == keys::device(device.id) && device.id.0 < counters.next_device, || {
            format!("{device:?} is under {key:02x?}")
        });
        if let Some(other) = lists.insert(keys::device_list(&device.chains), device.id) {
            findings.add(format!("{:?} and {other:?} are the same", device.id));
        }
    }
    let indexed = table::<DeviceId>(view, keys::DEVICE_LISTS, findings)?;
    findings.expect(indexed == lists, || format!("device lists are {indexed:02x?}, not {lists:02x?}"));
    Ok(())
}

fn pools(
    view: &dyn View,
    head: &MapHead,
    inodes: &BTreeMap<InodeId, Inode>,
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let mut counted = BTreeMap::<PoolId, (u32, u64)>::new();
    for pool in table::<PoolId>(view, keys::POOLS_OF_TARGETS, findings)?.into_values() {
        counted.entry(pool).or_default().0 += 1;
    }
    let policies = inodes.values().filter_map(|inode| inode.directory()?.stripe);
    for policy in policies.filter(|policy| policy.pool != PoolId::DEFAULT) {
        counted.entry(policy.pool).or_default().1 += 1;
    }
    for (key, pool) in table::<Pool>(view, keys::POOLS, findings)? {
        let found = counted.remove(&pool.id).unwrap_or_default();
        let is_sound = key == keys::pool(pool.id)
            && (1..=head.last_pool).contains(&pool.id.0)
            && found == (pool.targets, pool.directories);
        findings.expect(is_sound, || format!("{pool:?} is under {key:02x?}, with {found:?}"));
    }
    findings.expect(counted.is_empty(), || format!("of pools that are not there: {counted:?}"));
    Ok(())
}

fn chains(view: &dyn View, head: &MapHead, findings: &mut Findings) -> Result<(), StoreError> {
    let chains = table::<Chain>(view, keys::CHAINS, findings)?;
    findings
        .expect(head.chains as usize == chains.len(), || format!("{} chains, and {head:?}", chains.len()));
    let mut of_targets = Vec::new();
    for (key, chain) in &chains {
        let has_data =
            |member: &crate::ChainMember| matches!(member.state, MemberState::In | MemberState::Doubted);
        let has_one_in = chain.members.iter().any(has_data);
        let is_in_order = chain.members.is_sorted_by_key(|member| member.state);
        findings
            .expect(*key == keys::chain(chain.id) && has_one_in && is_in_order && chain.version > 0, || {
                format!("{chain:?} is under {key:02x?}")
            });
        of_targets.extend(chain.members.iter().map(|member| keys::chain_of_target(member.target, chain.id)));
    }
    of_targets.sort_unstable();
    let indexed = marks(view, keys::CHAINS_OF_TARGET)?;
    findings.expect(indexed == of_targets, || {
        format!("targets have chains {indexed:02x?}, there are {of_targets:02x?}")
    });
    Ok(())
}
