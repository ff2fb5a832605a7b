//! Reads from any view of the store: a snapshot or a batch in progress. They change nothing, so they do not
//! pass through the log.

mod boot;
mod clients;
mod clones;
mod cluster;
mod files;
mod locks;
mod snapshots;
mod states;
mod volumes;

pub use boot::{boot_group, boot_groups, boot_node, boot_node_of_mac, boot_nodes};
pub use clients::{client, clients, recorded, session, sessions};
pub use clones::{clones, clones_to_copy, origin};
pub use cluster::{
    chain, chains, chains_of_target, cluster_map, data_servers, deferred_ops, deferred_ops_after, device,
    devices, join_tokens, pools, target_server,
};
pub(crate) use files::xattr_heads;
pub use files::{
    generation, inline_data, inode, list, lookup, name_of, names_after, pending_fence, pending_truncation,
    space_untold, stripe_policy, to_settle, unsettled, version, written, xattr, xattrs,
};
pub(crate) use locks::{LockTest, Search, fork, holds};
pub use locks::{conflicting_lock, locks};
pub use snapshots::{
    ObjectsOf, Owner, copy_of_objects, history, objects, owner, removed_snapshots, rolls_back,
    shares_objects, snapshot, snapshots,
};
pub(crate) use snapshots::{own_objects, version_before};
pub(crate) use states::{client_uses, is_returned, may_conflict};
pub use states::{
    delegated, delegations, has_leftovers, has_room, has_state, in_use, layouts, opens, opens_of, revoked,
    share_conflict, share_holders, state, states, write_delegation, write_delegations,
};
pub use volumes::{
    charged, removed_volumes, room_bytes, rooms, usage, usages, volume, volume_lives, volumes,
};
pub(crate) use volumes::{left_volume, with_kept};

use std::ops::ControlFlow;

use serde::de::DeserializeOwned;
use store::{StoreError, View};

use crate::record::{Counters, decode, get};
use crate::{Incarnation, InodeId, StateCounts, keys};

/// Random bits that identify this name space, also among those of one cluster; never 0. A backup has the same
/// bits.
///
/// # Errors
/// [`StoreError`] when the store fails, or is not formatted yet.
pub fn name_space(view: &dyn View) -> Result<u64, StoreError> {
    let (root, counters) = (inode(view, InodeId::ROOT)?, get::<Counters>(view, &keys::counters())?);
    let (Some(root), Some(counters)) = (root, counters) else {
        return Err(StoreError::failed("read which name space this is", "there is none yet"));
    };
    Ok((u64::from(counters.client_prefix) << 32 | u64::from(root.generation)).max(1))
}

/// Incarnation of the group; none: the store was not formatted or received yet.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn incarnation(view: &dyn View) -> Result<Option<Incarnation>, StoreError> {
    get(view, &keys::incarnation())
}

/// Number of inodes in use, of all volumes.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn counts(view: &dyn View) -> Result<u64, StoreError> {
    Ok(counters(view)?.inodes)
}

/// Numbers of opens, locks, layouts and delegations.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn state_counts(view: &dyn View) -> Result<StateCounts, StoreError> {
    Ok(counters(view)?.states)
}

pub(crate) fn counters(view: &dyn View) -> Result<Counters, StoreError> {
    get(view, &keys::counters())?.ok_or_else(|| {
        StoreError::failed("read the counters", "there are none: the store was never formatted")
    })
}

/// Visits the records with `from <= key < to`.
pub(crate) fn scan_records<T: DeserializeOwned>(
    view: &dyn View,
    from: &[u8],
    to: &[u8],
    mut visit: impl FnMut(&[u8], T) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let mut outcome = Ok(());
    view.scan(from, to, &mut |key, value| match decode(key, value) {
        Ok(record) => visit(key, record),
        Err(error) => {
            outcome = Err(error);
            ControlFlow::Break(())
        }
    })?;
    outcome
}

/// Visits the keys that start with `prefix`.
pub(crate) fn scan_keys(
    view: &dyn View,
    prefix: &[u8],
    mut visit: impl FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    view.scan(prefix, &keys::after(prefix), &mut |key, _| visit(key))
}

/// All records whose key starts with `prefix`.
pub(crate) fn collect<T: DeserializeOwned>(view: &dyn View, prefix: &[u8]) -> Result<Vec<T>, StoreError> {
    let mut records = Vec::new();
    scan_records(view, prefix, &keys::after(prefix), |_, record| {
        records.push(record);
        ControlFlow::Continue(())
    })?;
    Ok(records)
}

/// At most `max` records with `from <= key < to`, and their keys.
pub(crate) fn collect_some<T: DeserializeOwned>(
    view: &dyn View,
    from: &[u8],
    to: &[u8],
    max: usize,
) -> Result<Vec<(keys::Key, T)>, StoreError> {
    let mut records = Vec::new();
    scan_records(view, from, to, |key, record| {
        records.push((key.to_vec(), record));
        if records.len() < max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(records)
}

/// At most `max` keys with `from <= key < to`.
pub(crate) fn some_keys(
    view: &dyn View,
    from: &[u8],
    to: &[u8],
    max: usize,
) -> Result<Vec<keys::Key>, StoreError> {
    let mut found = Vec::new();
    view.scan(from, to, &mut |key, _| {
        found.push(key.to_vec());
        if found.len() < max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(found)
}

/// True if a key starts with `prefix`.
pub(crate) fn any_key(view: &dyn View, prefix: &[u8]) -> Result<bool, StoreError> {
    let mut any = false;
    scan_keys(view, prefix, |_| {
        any = true;
        ControlFlow::Break(())
    })?;
    Ok(any)
}
