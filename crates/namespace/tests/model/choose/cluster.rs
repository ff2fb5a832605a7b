//! Commands of the cluster: map, data servers, join tokens, deferred operations.

use namespace::*;

use super::*;

impl Chooser<'_> {
    pub(super) fn deferred_ids(&mut self) -> Vec<u64> {
        let all: Vec<u64> = self.plain.deferred.keys().copied().collect();
        if self.seldom(2) { vec![999] } else { all }
    }

    fn map_change(&mut self) -> MapChange {
        let key = match self.pick(2) {
            0 => NodeKey::Metaserver(self.pick(2) as u64),
            _ => NodeKey::DataServer(DataServerId(self.pick(2) as u64)),
        };
        let states = [NodeState::Joining, NodeState::Serving, NodeState::Draining, NodeState::Removed];
        let state = states[self.pick(4)];
        match self.pick(10) {
            8 => {
                let version = self.plain.map_head.version.saturating_sub(u64::from(self.seldom(5)));
                MapChange::PoolTargets(self.pool(), vec![TargetId(self.pick(4) as u64)], version)
            }
            9 if self.seldom(3) => MapChange::RemovePool(self.pool()),
            9 if self.seldom(3) => {
                let copies = [None, Some(1), Some(3), Some(4)][self.pick(4)];
                let verify = [None, Some(Verify::Scrub)][self.pick(2)];
                MapChange::PoolPolicy(self.pool(), PoolPolicy { copies, verify })
            }
            9 => MapChange::MakePool(["", "a", "b", DEFAULT_POOL][self.pick(4)].to_string()),
            7 => {
                let states =
                    [TargetState::InUse, TargetState::Lost, TargetState::Draining, TargetState::Removed];
                MapChange::Target(TargetId(self.pick(4) as u64), states[self.pick(4)])
            }
            0 => MapChange::State(key, state),
            1 => {
                let length = if self.seldom(4) { NODE_TEXT_BYTES_MAX + 1 } else { self.pick(3) };
                let (name, version) = ("n".repeat(length), format!("0.{}", self.pick(2)));
                MapChange::Put(Node { key, name, address: String::new(), version, state })
            }
            2 => {
                let addresses = (0..self.pick(3)).map(|_| self.service_address());
                MapChange::ServiceAddresses(addresses.collect())
            }
            3 => MapChange::AddServiceAddress(self.service_address()),
            4 => MapChange::RemoveServiceAddress(self.service_address()),
            5 => {
                let change = |this: &mut Self| (this.setting(), (!this.seldom(3)).then(|| this.setting()));
                MapChange::Set((0..self.pick(3)).map(|_| change(self)).collect())
            }
            _ => {
                let settings = (0..self.pick(3)).map(|_| (self.setting(), self.setting())).collect();
                MapChange::Begin { settings, service_addresses: vec![self.service_address()] }
            }
        }
    }

    fn token_change(&mut self) -> TokenChange {
        let id = 1 + self.pick(2) as u64;
        match self.pick(3) {
            0 => {
                let after = self.pick(60) as u64;
                TokenChange::Make { id, expires: (self.plain.now.seconds as u64 + after).saturating_sub(5) }
            }
            1 => TokenChange::Use { id, name: "ash".into(), ticket: [self.pick(2) as u8; 32] },
            _ => TokenChange::Revoke { id },
        }
    }

    /// Mostly one that is there.
    pub(super) fn pool(&mut self) -> PoolId {
        let there: Vec<PoolId> = self.plain.pool_names.keys().copied().collect();
        match self.pick(4) {
            0 => PoolId::DEFAULT,
            1 => PoolId(self.pick(4) as u16),
            _ if there.is_empty() => PoolId::DEFAULT,
            _ => there[self.pick(there.len())],
        }
    }

    fn service_address(&mut self) -> std::net::IpAddr {
        [10, 0, 0, self.pick(2) as u8].into()
    }

    fn setting(&mut self) -> String {
        ["", "lease", "trash", "export"][self.pick(4)].to_string()
    }

    fn data_server(&mut self, id: u64) -> Command {
        // Mostly its own two of four targets.
        let own = [2 * id - 2, 2 * id - 1].map(TargetId);
        let moved = self.pick(4) == 0;
        let targets = if moved { vec![TargetId(self.pick(4) as u64), own[0]] } else { own.to_vec() };
        let (addresses, process) = (vec![format!("10.0.0.{id}:2050")], self.pick(2) as u64);
        let known = self.plain.servers.get(&DataServerId(id)).map(|server| server.process);
        // Now and then by a metaserver that has not heard of the present run.
        let known = if self.pick(6) == 0 { Some(self.pick(2) as u64) } else { known };
        let server = DataServer {
            id: DataServerId(id),
            name: "ds".to_string(),
            addresses,
            service_address: None,
            zone: String::new(),
            targets,
            process,
        };
        Command::PutDataServer { server, known }
    }

    fn make_chains(&mut self) -> Command {
        let servers = self.plain.servers.len();
        let opens = match servers {
            0 => false,
            1 => self.pick(2) == 0,
            _ => self.pick(6) == 0,
        };
        if opens {
            let (id, target, copies) = (self.chain(), TargetId(self.pick(4) as u64), self.pick(4) as u8);
            return Command::OpenChains { chains: vec![OpenChain { id, target, copies }] };
        }
        if servers < 2 {
            return self.data_server(1 + servers as u64);
        }
        // Mostly one of each data server.
        let of_servers = self.plain.servers.values().filter_map(|server| server.targets.last());
        let mut targets: Vec<TargetId> = of_servers.copied().collect();
        if targets.len() < 2 || self.pick(4) == 0 {
            targets = (0..2 + self.pick(2)).map(|_| TargetId(self.pick(4) as u64)).collect();
        }
        Command::MakeChains { chains: vec![NewChain { id: self.chain(), targets }] }
    }

    fn chain(&mut self) -> ChainId {
        ChainId(4 + self.pick(24) as u64)
    }

    fn chain_change(&mut self) -> ChainChange {
        let there: Vec<ChainId> = self.plain.chains.keys().copied().collect();
        let chain =
            if there.is_empty() || self.seldom(9) { self.chain() } else { there[self.pick(there.len())] };
        let version = match self.plain.chains.get(&chain) {
            Some(chain) if self.pick(5) > 0 => chain.version,
            _ => self.pick(3) as u32,
        };
        let [target, other] = [0; 2].map(|_: u8| TargetId(self.pick(4) as u64));
        let step = match self.pick(16) {
            15 => ChainStep::Pool(self.pool()),
            14 => ChainStep::Copies(self.pick(5) as u8),
            13 => ChainStep::Closed,
            12 => ChainStep::Close,
            11 => ChainStep::Doubt,
            9 | 10 => {
                let third = TargetId(self.pick(4) as u64);
                let members =
                    [(target, 4), (other, 2), (third, 2)].map(|(t, n)| (self.pick(n) > 0).then_some(t));
                ChainStep::Adopt(members, if self.pick(9) == 0 { u32::MAX } else { self.pick(40) as u32 })
            }
            8 => ChainStep::Move(target, other),
            6 => ChainStep::Add(target),
            7 => ChainStep::Drop(target),
            0 => ChainStep::Leave(target),
            1 => ChainStep::Return(target),
            2 | 3 => ChainStep::Complete(target),
            4 => ChainStep::Lead(target),
            _ => ChainStep::Replace(target, other),
        };
        ChainChange { chain, version, step }
    }

    pub(super) fn command_of_cluster(&mut self) -> Command {
        match self.pick(11) {
            6 | 9 | 10 => self.make_chains(),
            7 | 8 => {
                let changes = (0..1 + self.pick(2)).map(|_| self.chain_change()).collect();
                Command::ChangeChains { changes }
            }
            4 => Command::Map(self.map_change()),
            5 if self.pick(2) == 0 => Command::Boot(self.boot_change()),
            5 => Command::JoinToken(self.token_change()),
            0 => {
                let id = 1 + self.pick(2) as u64;
                self.data_server(id)
            }
            1 => Command::DefineDevice {
                chains: (0..self.pick(3)).map(|_| ChainId(self.pick(6) as u64)).collect(),
            },
            2 => Command::Format { incarnation: [9; 16] },
            _ => Command::DeferredDone { ids: self.deferred_ids() },
        }
    }
}
