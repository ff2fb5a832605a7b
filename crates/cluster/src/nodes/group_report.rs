//! The leader's report of the group, and its form on the wire.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use namespace::{DataServerId, NodeKey};
use replica::NodeId;
use wire::peer::group::report::{AddressReport, ClockReport, MemberReport, Report};

use crate::peers::{addresses, text};

/// Facts about the group that only the leader knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupReport {
    /// Milliseconds since the leader heard of each member.
    pub heard_ms: BTreeMap<NodeId, u64>,
    /// Last index of the log that each member has.
    pub matched: BTreeMap<NodeId, u64>,
    /// Holder of each service address.
    pub addresses: BTreeMap<IpAddr, Option<NodeId>>,
    /// Holder of each service address of a data server.
    pub data_addresses: BTreeMap<IpAddr, Option<DataServerId>>,
    /// Members that the leader can reach now.
    pub living: BTreeSet<NodeId>,
    /// Members that serve no client, since their state is disputed or cannot be read.
    pub out_of_service: BTreeSet<NodeId>,
    /// Milliseconds that each server's clock is ahead of the cluster's.
    pub clocks: BTreeMap<NodeKey, i64>,
}

impl GroupReport {
    pub(crate) fn to_wire(&self) -> Report {
        let known =
            self.heard_ms.keys().chain(self.matched.keys()).chain(&self.living).chain(&self.out_of_service);
        let ids: BTreeSet<NodeId> = known.copied().collect();
        let member = |member: &NodeId| MemberReport {
            member: *member,
            heard_ms: self.heard_ms.get(member).copied(),
            matched: self.matched.get(member).copied(),
            lives: self.living.contains(member),
            out_of_service: self.out_of_service.contains(member),
        };
        let clock = |(key, ahead_ms): (&NodeKey, &i64)| {
            let (is_data_server, server) = match *key {
                NodeKey::Metaserver(id) => (false, id),
                NodeKey::DataServer(id) => (true, id.0),
            };
            ClockReport { is_data_server, server, ahead_ms: *ahead_ms }
        };
        let address = |(address, holder): (&IpAddr, &Option<NodeId>)| AddressReport {
            address: text(address),
            holder: *holder,
        };
        Report {
            members: ids.iter().map(member).collect(),
            addresses: self.addresses.iter().map(address).collect(),
            data_addresses: self
                .data_addresses
                .iter()
                .map(|(held, holder)| address((held, &holder.map(|holder| holder.0))))
                .collect(),
            clocks: self.clocks.iter().map(clock).collect(),
        }
    }

    pub(crate) fn of_wire(report: Report) -> Self {
        let mut group = Self::default();
        for MemberReport { member, heard_ms, matched, lives, out_of_service } in report.members {
            group.heard_ms.extend(heard_ms.map(|ms| (member, ms)));
            group.matched.extend(matched.map(|index| (member, index)));
            group.living.extend(lives.then_some(member));
            group.out_of_service.extend(out_of_service.then_some(member));
        }
        for AddressReport { address, holder } in report.addresses {
            group.addresses.extend(addresses(&[address]).pop().map(|address| (address, holder)));
        }
        for AddressReport { address, holder } in report.data_addresses {
            let holder = holder.map(DataServerId);
            group.data_addresses.extend(addresses(&[address]).pop().map(|address| (address, holder)));
        }
        for ClockReport { is_data_server, server, ahead_ms } in report.clocks {
            let key = match is_data_server {
                true => NodeKey::DataServer(DataServerId(server)),
                false => NodeKey::Metaserver(server),
            };
            group.clocks.insert(key, ahead_ms);
        }
        group
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_goes_over_the_wire_and_back() {
        let address = |last| IpAddr::from([10, 0, 0, last]);
        let group = GroupReport {
            heard_ms: BTreeMap::from([(1, 0), (2, 40)]),
            matched: BTreeMap::from([(1, 9), (3, 7)]),
            addresses: BTreeMap::from([(address(100), Some(2)), (address(101), None)]),
            data_addresses: BTreeMap::from([(address(105), Some(DataServerId(7))), (address(106), None)]),
            living: BTreeSet::from([2, 4]),
            out_of_service: BTreeSet::from([4]),
            clocks: BTreeMap::from([(NodeKey::Metaserver(1), -3), (NodeKey::DataServer(DataServerId(1)), 5)]),
        };
        assert_eq!(GroupReport::of_wire(group.to_wire()), group);
    }
}
