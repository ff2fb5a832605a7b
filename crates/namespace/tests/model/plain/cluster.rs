//! The model's cluster map.

use namespace::*;

use super::{Outcome, Plain};

impl Plain {
    pub(super) fn put_data_server(&mut self, server: DataServer, known: Option<u64>) -> Outcome {
        let mut server = server;
        let listed = std::mem::take(&mut server.targets);
        for target in listed {
            if !server.targets.contains(&target) {
                server.targets.push(target);
            }
        }
        if self.servers.get(&server.id) == Some(&server) {
            return Ok(Reply::Done);
        }
        match self.servers.get(&server.id).map(|before| before.process) {
            Some(before) if before != server.process && Some(before) != known => return Err(Error::Delay),
            Some(_) | None => {}
        }
        for other in self.servers.values_mut() {
            other.targets.retain(|target| !server.targets.contains(target));
        }
        self.servers.insert(server.id, server);
        self.map_head.version += 1;
        Ok(Reply::Done)
    }

    pub(super) fn change_map(&mut self, change: MapChange) -> Outcome {
        let before = (
            self.map_nodes.clone(),
            self.map_head.clone(),
            self.declared_targets.clone(),
            self.map_settings.clone(),
            (self.pool_names.clone(), self.pool_policies.clone(), self.pools_of_targets.clone()),
        );
        match change {
            MapChange::State(key, state) => {
                self.map_nodes.get_mut(&key).ok_or(Error::NoEntry)?.state = state;
            }
            MapChange::Put(mut node) => {
                if node.name.len() > NODE_TEXT_BYTES_MAX {
                    return Err(Error::Invalid);
                }
                if let Some(NodeState::Draining | NodeState::Removed) =
                    self.map_nodes.get(&node.key).map(|n| n.state)
                {
                    node.state = self.map_nodes[&node.key].state;
                }
                self.map_nodes.insert(node.key, node);
                self.map_head.nodes = self.map_nodes.len() as u32;
            }
            MapChange::ServiceAddresses(addresses) => {
                if addresses.iter().enumerate().any(|(n, a)| addresses[..n].contains(a)) {
                    return Err(Error::Invalid);
                }
                self.map_head.service_addresses = addresses;
            }
            MapChange::AddServiceAddress(address) => {
                if self.map_head.service_addresses.contains(&address) {
                    return Err(Error::Exists);
                }
                self.map_head.service_addresses.push(address);
            }
            MapChange::RemoveServiceAddress(address) => {
                let known = self.map_head.service_addresses.iter().position(|other| *other == address);
                self.map_head.service_addresses.remove(known.ok_or(Error::NoEntry)?);
            }
            MapChange::MakePool(name) => self.make_pool(name)?,
            MapChange::RemovePool(id) => self.remove_pool(id)?,
            MapChange::PoolTargets(id, targets, version) => self.pool_targets(id, &targets, version)?,
            MapChange::Set(changes) => self.set(changes)?,
            MapChange::Begin { settings, service_addresses } => {
                if !self.map_head.begun {
                    self.set(settings.into_iter().map(|(key, value)| (key, Some(value))).collect())?;
                    self.map_head.service_addresses = service_addresses;
                    self.map_head.begun = true;
                }
            }
            MapChange::PoolPolicy(id, policy) => self.pool_policy(id, policy)?,
            MapChange::Target(target, TargetState::InUse) => {
                self.declared_targets.remove(&target);
            }
            MapChange::Target(target, state) => self.declare(target, state)?,
        }
        let after = (
            self.map_nodes.clone(),
            self.map_head.clone(),
            self.declared_targets.clone(),
            self.map_settings.clone(),
            (self.pool_names.clone(), self.pool_policies.clone(), self.pools_of_targets.clone()),
        );
        if before != after {
            self.map_head.version += 1;
        }
        Ok(Reply::Done)
    }

    fn declare(&mut self, target: TargetId, state: TargetState) -> Result<(), Error> {
        let before = self.declared_targets.get(&target).copied();
        if before == Some(state) {
            return Ok(());
        }
        let in_chains = self.chains.values().any(|chain| chain.has(target));
        match state {
            TargetState::Draining if before.is_some() => return Err(Error::Invalid),
            TargetState::Removed if before != Some(TargetState::Draining) => return Err(Error::Invalid),
            TargetState::Removed if in_chains => return Err(Error::NotEmpty),
            _ => {}
        }
        let held = self.servers.values().any(|server| server.targets.contains(&target));
        let named = self.devices.iter().any(|device| device.chains.contains(&target.into())) || in_chains;
        if !held && !named && before.is_none() {
            return Err(Error::NoDevice);
        }
        if state == TargetState::Removed {
            self.pools_of_targets.remove(&target);
        }
        self.declared_targets.insert(target, state);
        Ok(())
    }

    pub(super) fn change_token(&mut self, change: TokenChange) -> Outcome {
        let now = self.now;
        let lives = |token: &JoinToken| token.expires > now.seconds as u64;
        match change {
            TokenChange::Make { id, expires } => {
                if self.tokens.get(&id).is_some_and(lives) {
                    return Err(Error::Exists);
                }
                let token = JoinToken { id, expires, made: now, used: None };
                if !lives(&token) {
                    return Err(Error::Invalid);
                }
                self.tokens.retain(|_, token| lives(token));
                self.tokens.insert(id, token);
            }
            TokenChange::Use { id, name, ticket } => {
                let token = self.tokens.get_mut(&id).filter(|token| lives(token)).ok_or(Error::NoEntry)?;
                let by = TokenUse { name, time: now, ticket };
                if token.used.get_or_insert(by).ticket != ticket {
                    return Err(Error::Exists);
                }
            }
            TokenChange::Revoke { id } => {
                self.tokens.remove(&id).ok_or(Error::NoEntry)?;
            }
        }
        Ok(Reply::Done)
    }

    fn set(&mut self, changes: Vec<(String, Option<String>)>) -> Result<(), Error> {
        let keys = changes.iter().map(|(key, _)| key).collect::<std::collections::BTreeSet<_>>();
        if keys.len() < changes.len() || keys.contains(&String::new()) {
            return Err(Error::Invalid);
        }
        for (key, value) in changes {
            match value {
                Some(value) => self.map_settings.insert(key, value),
                None => self.map_settings.remove(&key),
            };
        }
        self.map_head.settings = self.map_settings.len() as u32;
        Ok(())
    }

    pub(super) fn define_device(&mut self, chains: Vec<ChainId>) -> Outcome {
        if let Some(device) = self.devices.iter().find(|device| device.chains == chains) {
            return Ok(Reply::Device { id: device.id });
        }
        let known = |id: &ChainId| self.server_of(TargetId(id.0)).is_some() || self.chains.contains_key(id);
        if chains.is_empty() || !chains.iter().all(known) {
            return Err(Error::NoDevice);
        }
        let id = DeviceId(self.devices.len() as u64 + 1);
        self.devices.push(Device { id, chains });
        Ok(Reply::Device { id })
    }
}
