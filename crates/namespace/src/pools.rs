//! Pools: named sets of targets, such as all flash disks. Directories choose the pool of their new files.
//!
//! A target is in one pool. Those that no pool has are in the default one, which has no record. A chain is of the
//! pool that its targets were in when it was made. When a target goes to another pool, the leader moves its chains to
//! targets that stay; if none stays, the chains go with their targets ([`ChainStep::Pool`]).
//!
//! [`ChainStep::Pool`]: crate::ChainStep::Pool

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use store::{StoreError, View};

use crate::plan::{Broken, Plan, Stop};
use crate::record::get;
use crate::{
    COPIES_MAX, DataServerId, Error, Inode, MapHead, Reply, StripePolicy, TargetId, cluster_map, keys, read,
};

/// Maximum of pools beside the default one.
pub const POOLS_MAX: usize = 64;
/// Maximum length of a pool's name in bytes.
pub const POOL_NAME_BYTES_MAX: usize = 64;
/// Maximum of targets in pools beside the default one: one row for each.
pub const POOLED_TARGETS_MAX: u32 = 8192;
/// Maximum of targets that one command puts into a pool.
pub const TARGETS_OF_COMMAND_MAX: usize = 256;
/// Name of the pool of all targets that are in no other.
pub const DEFAULT_POOL: &str = "default";

/// Id of a pool. Ids are not used again: chains may name one that was removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PoolId(pub u16);

impl PoolId {
    /// The pool of all targets that are in no other.
    pub const DEFAULT: Self = Self(0);
}

/// A pool beside the default one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// Its id.
    pub id: PoolId,
    /// Its name.
    pub name: String,
    /// Number of its targets.
    pub targets: u32,
    /// Number of directories whose stripe policy names it.
    pub directories: u64,
    /// What holds in it.
    pub policy: PoolPolicy,
}

/// What holds in a pool instead of the cluster's settings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolPolicy {
    /// Copies of new files whose directory names no number; none: those of the cluster's settings.
    pub copies: Option<u8>,
    /// When blocks are verified; none: as the cluster's settings say.
    pub verify: Option<Verify>,
}

/// When blocks of objects are compared with their sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verify {
    /// At each read, and by scrubs.
    Read,
    /// By scrubs only.
    Scrub,
}

/// Makes an empty pool.
///
/// # Errors
/// `Exists` if another one has this name.
pub(crate) fn make(plan: &mut Plan<'_>, name: &str) -> Result<Reply, Stop> {
    let pools: Vec<Pool> = read::pools(plan.view())?;
    if name == DEFAULT_POOL || pools.iter().any(|pool| pool.name == name) {
        return Err(Error::Exists.into());
    }
    if name.is_empty() || name.len() > POOL_NAME_BYTES_MAX || pools.len() >= POOLS_MAX {
        return Err(Error::Invalid.into());
    }
    let before = cluster_map::head(plan.view())?;
    let id = PoolId(before.last_pool.checked_add(1).ok_or(Error::Invalid)?);
    plan.put(
        &keys::pool(id),
        &Pool { id, name: name.into(), targets: 0, directories: 0, policy: PoolPolicy::default() },
    )?;
    plan.put(&keys::map_head(), &MapHead { version: before.version + 1, last_pool: id.0, ..before })?;
    Ok(Reply::Done)
}

/// Removes a pool without targets that no directory names.
///
/// # Errors
/// `NoEntry` if there is none, `NotEmpty` if it is in use.
pub(crate) fn remove(plan: &mut Plan<'_>, id: PoolId) -> Result<Reply, Stop> {
    let pool: Pool = get(plan.view(), &keys::pool(id))?.ok_or(Error::NoEntry)?;
    if pool.targets > 0 || pool.directories > 0 {
        return Err(Error::NotEmpty.into());
    }
    plan.delete(&keys::pool(id));
    cluster_map::changed(plan)?;
    Ok(Reply::Done)
}

/// Sets what holds in a pool.
///
/// # Errors
/// `NoEntry` if there is none beside the default one, `Invalid` for a number of copies that no chain has.
pub(crate) fn set_policy(plan: &mut Plan<'_>, id: PoolId, policy: PoolPolicy) -> Result<Reply, Stop> {
    let pool: Pool = get(plan.view(), &keys::pool(id))?.ok_or(Error::NoEntry)?;
    if policy.copies.is_some_and(|copies| !(1..=COPIES_MAX).contains(&usize::from(copies))) {
        return Err(Error::Invalid.into());
    }
    if pool.policy != policy {
        plan.put(&keys::pool(id), &Pool { policy, ..pool })?;
        cluster_map::changed(plan)?;
    }
    Ok(Reply::Done)
}

/// Puts targets, which data servers or other pools have, into a pool, and out of the one that they are in. `version` is
/// that of the map by which the administrator's metaserver has found that data and new files have a place.
///
/// # Errors
/// `NoEntry` if there is no such pool, `NoDevice` if a target is not known, `NotEmpty` if directories would name a pool
/// without targets, `Delay` if the map has another version.
pub(crate) fn put_targets(
    plan: &mut Plan<'_>,
    id: PoolId,
    targets: &[TargetId],
    version: u64,
) -> Result<Reply, Stop> {
    check_pool(plan.view(), id)?;
    if cluster_map::head(plan.view())?.version != version {
        return Err(Error::Delay.into());
    }
    if targets.len() > TARGETS_OF_COMMAND_MAX {
        return Err(Error::Invalid.into());
    }
    let mut is_news = false;
    for target in targets {
        let before = pool_of(plan.view(), *target)?;
        if get::<DataServerId>(plan.view(), &keys::target(*target))?.is_none() && before == PoolId::DEFAULT {
            return Err(Error::NoDevice.into());
        }
        if before == id {
            continue;
        }
        count(plan, before, |pool| pool.targets.checked_sub(1).map(|left| pool.targets = left))?;
        count(plan, id, |pool| pool.targets.checked_add(1).map(|more| pool.targets = more))?;
        match id {
            PoolId::DEFAULT => plan.delete(&keys::pool_of_target(*target)),
            id => plan.put(&keys::pool_of_target(*target), &id)?,
        }
        is_news = true;
    }
    let pools: Vec<Pool> = read::pools(plan.view())?;
    if pools.iter().map(|pool| pool.targets).sum::<u32>() > POOLED_TARGETS_MAX {
        return Err(Error::Invalid.into());
    }
    if is_news && pools.iter().any(|pool| pool.targets == 0 && pool.directories > 0) {
        return Err(Error::NotEmpty.into());
    }
    if is_news {
        cluster_map::changed(plan)?;
    }
    Ok(Reply::Done)
}

/// Takes a target that is removed out of its pool.
pub(crate) fn forget_target(plan: &mut Plan<'_>, target: TargetId) -> Result<(), Stop> {
    let pool = pool_of(plan.view(), target)?;
    count(plan, pool, |pool| pool.targets.checked_sub(1).map(|left| pool.targets = left))?;
    plan.delete(&keys::pool_of_target(target));
    Ok(())
}

/// Counts a directory whose stripe policy changes.
///
/// # Errors
/// `NoEntry` if there is no such pool, `NoDevice` if it has no targets.
pub(crate) fn policy_changes(
    plan: &mut Plan<'_>,
    before: Option<StripePolicy>,
    after: Option<StripePolicy>,
) -> Result<(), Stop> {
    let pool = |policy: Option<StripePolicy>| policy.map_or(PoolId::DEFAULT, |policy| policy.pool);
    let (before, after) = (pool(before), pool(after));
    check_pool(plan.view(), after)?;
    if before != after {
        count(plan, before, |pool| pool.directories.checked_sub(1).map(|left| pool.directories = left))?;
        count(plan, after, |pool| pool.directories.checked_add(1).map(|more| pool.directories = more))?;
        let named: Option<Pool> = get(plan.view(), &keys::pool(after))?;
        if named.is_some_and(|pool| pool.targets == 0) {
            return Err(Error::NoDevice.into());
        }
    }
    Ok(())
}

/// Counts a directory that is removed.
pub(crate) fn forget_directory(plan: &mut Plan<'_>, inode: &Inode) -> Result<(), Stop> {
    match inode.directory() {
        Some(directory) => policy_changes(plan, directory.stripe, None),
        None => Ok(()),
    }
}

/// True if a directory may name the pool.
pub(crate) fn has_targets(view: &dyn View, id: PoolId) -> Result<bool, StoreError> {
    Ok(id == PoolId::DEFAULT || get::<Pool>(view, &keys::pool(id))?.is_some_and(|pool| pool.targets > 0))
}

fn check_pool(view: &dyn View, id: PoolId) -> Result<(), Stop> {
    match id {
        PoolId::DEFAULT => Ok(()),
        id => Ok(get::<Pool>(view, &keys::pool(id))?.map(drop).ok_or(Error::NoEntry)?),
    }
}

fn count(plan: &mut Plan<'_>, id: PoolId, change: impl FnOnce(&mut Pool) -> Option<()>) -> Result<(), Stop> {
    if id == PoolId::DEFAULT {
        return Ok(());
    }
    let mut pool: Pool = get(plan.view(), &keys::pool(id))?.ok_or(Broken("a pool is not there"))?;
    change(&mut pool).ok_or(Broken("what leaves a pool was not counted"))?;
    Ok(plan.put(&keys::pool(id), &pool)?)
}

/// Pool of a target.
pub(crate) fn pool_of(view: &dyn View, target: TargetId) -> Result<PoolId, StoreError> {
    Ok(get(view, &keys::pool_of_target(target))?.unwrap_or_default())
}

/// Pools of all targets that are not in the default one.
pub(crate) fn pools_of_targets(view: &dyn View) -> Result<BTreeMap<TargetId, PoolId>, StoreError> {
    let mut targets = Vec::new();
    read::scan_keys(view, &[keys::POOLS_OF_TARGETS], |key| {
        targets.push(TargetId(keys::number(key, 1)));
        ControlFlow::Continue(())
    })?;
    targets.into_iter().map(|target| Ok((target, pool_of(view, target)?))).collect()
}
