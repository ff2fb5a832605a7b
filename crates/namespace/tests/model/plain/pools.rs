//! Pools in the model: names, and the pool of each target. What is counted follows from the rest.

use std::collections::BTreeMap;

use namespace::*;

use super::{Content, Plain};

impl Plain {
    pub fn pool_of(&self, target: TargetId) -> PoolId {
        self.pools_of_targets.get(&target).copied().unwrap_or_default()
    }

    /// All pools but the default one, with their counts.
    pub fn pools(&self) -> Vec<Pool> {
        let mut directories = BTreeMap::<PoolId, u64>::new();
        for node in self.nodes.values() {
            if let Content::Directory { stripe: Some(policy), .. } = &node.content {
                *directories.entry(policy.pool).or_default() += 1;
            }
        }
        let pool = |(id, name): (&PoolId, &String)| Pool {
            id: *id,
            name: name.clone(),
            targets: self.pools_of_targets.values().filter(|pool| *pool == id).count() as u32,
            directories: directories.get(id).copied().unwrap_or_default(),
            policy: self.pool_policies.get(id).copied().unwrap_or_default(),
        };
        self.pool_names.iter().map(pool).collect()
    }

    pub(super) fn is_pool(&self, id: PoolId) -> bool {
        id == PoolId::DEFAULT || self.pool_names.contains_key(&id)
    }

    pub(super) fn make_pool(&mut self, name: String) -> Result<(), Error> {
        if name == DEFAULT_POOL || self.pool_names.values().any(|other| *other == name) {
            return Err(Error::Exists);
        }
        if name.is_empty() {
            return Err(Error::Invalid);
        }
        self.map_head.last_pool += 1;
        self.pool_names.insert(PoolId(self.map_head.last_pool), name);
        Ok(())
    }

    pub(super) fn remove_pool(&mut self, id: PoolId) -> Result<(), Error> {
        let pool = self.pools().into_iter().find(|pool| pool.id == id).ok_or(Error::NoEntry)?;
        if pool.targets > 0 || pool.directories > 0 {
            return Err(Error::NotEmpty);
        }
        self.pool_names.remove(&id);
        self.pool_policies.remove(&id);
        Ok(())
    }

    pub(super) fn pool_policy(&mut self, id: PoolId, policy: PoolPolicy) -> Result<(), Error> {
        if !self.pool_names.contains_key(&id) {
            return Err(Error::NoEntry);
        }
        if !matches!(policy.copies, None | Some(1..=3)) {
            return Err(Error::Invalid);
        }
        self.pool_policies.insert(id, policy);
        self.pool_policies.retain(|_, policy| *policy != PoolPolicy::default());
        Ok(())
    }

    pub(super) fn pool_targets(
        &mut self,
        id: PoolId,
        targets: &[TargetId],
        version: u64,
    ) -> Result<(), Error> {
        if !self.is_pool(id) {
            return Err(Error::NoEntry);
        }
        if version != self.map_head.version {
            return Err(Error::Delay);
        }
        let is_known = |target: &TargetId| {
            self.server_of(*target).is_some() || self.pools_of_targets.contains_key(target)
        };
        if !targets.iter().all(is_known) {
            return Err(Error::NoDevice);
        }
        let before = self.pools_of_targets.clone();
        for target in targets {
            self.pools_of_targets.insert(*target, id);
        }
        self.pools_of_targets.retain(|_, pool| *pool != PoolId::DEFAULT);
        let is_bare = |pool: &Pool| pool.targets == 0 && pool.directories > 0;
        if self.pools_of_targets != before && self.pools().iter().any(is_bare) {
            self.pools_of_targets = before;
            return Err(Error::NotEmpty);
        }
        Ok(())
    }
}
