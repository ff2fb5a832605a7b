//! Sites of targets: what one fault takes together. Copies share a site only where there are too few.
//!
//! ```text
//! zone, such as a rack  ⊃  machine  ⊃  data server  ⊃  target
//! ```
//!
//! Two members of a chain never share a data server. Zones come from operators; without them, machines count.

use std::collections::BTreeMap;
use std::net::IpAddr;

use namespace::{Chain, ClusterMap, DataServer, DataServerId, TargetId};

/// Site of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Site {
    /// Its data server.
    pub(super) server: DataServerId,
    /// Its machine; none: not known.
    pub(super) machine: Option<IpAddr>,
    /// Its zone; empty: none.
    pub(super) zone: String,
}

impl Site {
    pub(super) fn of(server: &DataServer) -> Self {
        Self { server: server.id, machine: super::machine(server), zone: server.zone.clone() }
    }

    /// What this site shares with `others`.
    pub(super) fn shared<'a>(&self, others: impl Iterator<Item = &'a Site>) -> Shared {
        let mut shared = Shared::default();
        for other in others {
            shared.zone += u8::from(!self.zone.is_empty() && self.zone == other.zone);
            shared.machine += u8::from(self.machine.is_some() && self.machine == other.machine);
        }
        shared
    }
}

/// Numbers of other members that share a target's zone and its machine; orders by what is worse.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shared {
    pub(super) zone: u8,
    pub(super) machine: u8,
}

/// Sites of all targets of data servers that are present.
#[derive(Debug, Default)]
pub(super) struct Sites(BTreeMap<TargetId, Site>);

impl Sites {
    pub(super) fn of(map: &ClusterMap) -> Self {
        let of_server = |server: &DataServer| {
            let site = Site::of(server);
            server.targets.iter().map(|target| (*target, site.clone())).collect::<Vec<_>>()
        };
        Self(map.present_data_servers().flat_map(of_server).collect())
    }

    pub(super) fn get(&self, target: TargetId) -> Option<&Site> {
        self.0.get(&target)
    }

    /// What `target` shares with the members of this chain, but `instead_of`.
    pub(super) fn shared(&self, chain: &Chain, instead_of: TargetId, target: TargetId) -> Shared {
        let others = chain.members.iter().map(|member| member.target).filter(|other| *other != instead_of);
        let others = others.filter_map(|other| self.get(other));
        self.get(target).map_or_else(Shared::default, |site| site.shared(others))
    }

    /// The member that shares most with the others, not the head if another one shares as much. None: no member shares
    /// anything.
    pub(super) fn closest(&self, chain: &Chain) -> Option<(TargetId, Shared)> {
        let members = chain.members.iter().map(|member| member.target);
        let shared = members.map(|target| (target, self.shared(chain, target, target)));
        shared.filter(|(_, shared)| *shared > Shared::default()).max_by_key(|(_, shared)| *shared)
    }
}

#[cfg(test)]
mod tests {
    use namespace::{ChainId, ChainMember, MemberState, PoolId, Time};

    use super::*;

    fn map(servers: &[(u64, &str, &str)]) -> ClusterMap {
        let server = |(id, address, zone): &(u64, &str, &str)| DataServer {
            id: DataServerId(*id),
            name: String::new(),
            addresses: vec![(*address).into()],
            service_address: None,
            zone: (*zone).into(),
            targets: vec![TargetId(*id)],
            process: 1,
        };
        ClusterMap { data_servers: servers.iter().map(server).collect(), ..ClusterMap::default() }
    }

    fn chain(targets: &[u64]) -> Chain {
        let member = |target: &u64| ChainMember {
            target: TargetId(*target),
            state: MemberState::In,
            since: Time::default(),
            process: 1,
        };
        let members = targets.iter().map(member).collect();
        let copies = targets.len() as u8;
        Chain {
            id: ChainId(1),
            version: 1,
            verifier: 1,
            copies,
            members,
            leaving: None,
            pool: PoolId::DEFAULT,
        }
    }

    #[test]
    fn the_member_that_shares_most_is_found_and_never_the_head_without_need() {
        let sites = Sites::of(&map(&[
            (1, "10.0.0.1:2050", "a"),
            (2, "10.0.0.2:2050", "a"),
            (3, "10.0.0.2:2051", "a"),
            (4, "10.0.0.4:2050", "b"),
        ]));
        let shared = |zone, machine| Shared { zone, machine };
        assert_eq!(sites.closest(&chain(&[1, 4])), None);
        assert_eq!(sites.closest(&chain(&[1, 2])), Some((TargetId(2), shared(1, 0))));
        assert_eq!(sites.closest(&chain(&[2, 3])), Some((TargetId(3), shared(1, 1))));
        assert_eq!(sites.closest(&chain(&[3, 1, 2])), Some((TargetId(2), shared(2, 1))));
        let of = |target| sites.shared(&chain(&[1, 2]), TargetId(2), TargetId(target));
        assert_eq!((of(3), of(4), of(99)), (shared(1, 0), shared(0, 0), shared(0, 0)));
    }

    #[test]
    fn without_zones_machines_count() {
        let sites =
            Sites::of(&map(&[(1, "10.0.0.1:2050", ""), (2, "10.0.0.1:2051", ""), (3, "10.0.0.3:2050", "")]));
        assert_eq!(sites.closest(&chain(&[1, 3])), None);
        assert_eq!(sites.closest(&chain(&[1, 2])), Some((TargetId(2), Shared { zone: 0, machine: 1 })));
    }
}
