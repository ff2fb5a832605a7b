//! File system locations, and trunking over them: every metaserver has the same file system (RFC 8881,
//! sections 11.16 and 11.17).
//!
//! ```text
//! service addresses, if there are any ──▶ fs_locations: only the addresses of rank 0, since it has no ranks
//! metaservers' own addresses ───────────▶ fs_locations_info: both, service addresses ranked before the others
//! ```
//!
//! For a client all metaservers are one server with one server owner (EXCHANGE_ID), and one session may have
//! connections to several of them. Linux asks for fs_locations when it mounts with `trunkdiscovery`, and uses
//! up to `max_connect` addresses; it does not read fs_locations_info.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use namespace::{ClusterMap, NodeKey, NodeState};
use replica::{Member, NodeId};
use wire::nfs4::NetAddr;
use wire::nfs4::fs_locations::{FsLocation, FsLocations};
use wire::nfs4::fs_locations_info::{
    FsLocationsInfo, FsLocationsItem, FsLocationsServer, ServerInfo, general,
};

use crate::attributes::Attributes;

/// Maximum of addresses in a reply: at most 3 KiB of fs_locations, and Linux has space for a page of 4 KiB.
const LOCATIONS_MAX: usize = 64;
/// Default port of an address without a port (RFC 8881, section 2.9.3).
const NFS_PORT: u16 = 2049;
/// The class of all metaservers, for every kind of class.
const ALIKE: u8 = 1;

/// Address that clients can mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Location {
    address: SocketAddr,
    /// 0, or 1 for a metaserver's own address if service addresses exist.
    rank: u8,
    /// True if its metaserver drains.
    is_going: bool,
}

impl Attributes {
    /// Value of fs_locations, over a connection to `local`.
    pub(crate) fn fs_locations(&self, local: SocketAddr) -> FsLocations {
        let locations = self.locations(local);
        let servers = first_choice(&locations).map(|location| name(location.address)).collect();
        FsLocations { fs_root: vec![], locations: vec![FsLocation { servers, rootpath: vec![] }] }
    }

    /// Value of fs_locations_info, over a connection to `local`.
    pub(crate) fn fs_locations_info(&self, local: SocketAddr) -> FsLocationsInfo {
        let entries = self.locations(local).iter().map(|location| entry(location, local)).collect();
        FsLocationsInfo {
            flags: 0,
            valid_for_s: seconds(self.cluster.lease()),
            fs_root: vec![],
            items: vec![FsLocationsItem { entries, rootpath: vec![] }],
        }
    }

    fn locations(&self, local: SocketAddr) -> Vec<Location> {
        locations(&self.machine.replica.status().members, &self.cluster.map(), local)
    }
}

/// Returns all locations; only `local`, the address of the connection, if there are no others.
fn locations(members: &[(NodeId, Member, bool)], map: &ClusterMap, local: SocketAddr) -> Vec<Location> {
    let services = &map.head.service_addresses;
    let rank = u8::from(!services.is_empty());
    let services = services.iter().map(|address| {
        // Metaservers hold service addresses for their listening port.
        Location { address: SocketAddr::new(*address, local.port()), rank: 0, is_going: false }
    });
    let own = members.iter().filter_map(|(id, member, _)| {
        let address: SocketAddr = member.serves.parse().ok()?;
        let is_going = map.state(NodeKey::Metaserver(*id)) >= NodeState::Draining;
        (!address.ip().is_unspecified()).then_some(Location { address, rank, is_going })
    });
    let mut all: Vec<Location> = services.chain(own).take(LOCATIONS_MAX).collect();
    if all.is_empty() {
        all.push(Location { address: local, rank: 0, is_going: false });
    }
    all
}

/// Locations of the best rank, without draining metaservers if there are others.
fn first_choice(all: &[Location]) -> impl Iterator<Item = &Location> {
    let stays = all.iter().any(|location| location.rank == 0 && !location.is_going);
    all.iter().filter(move |location| location.rank == 0 && !(stays && location.is_going))
}

fn entry(location: &Location, local: SocketAddr) -> FsLocationsServer {
    let mut flags = general::WRITABLE;
    if location.address == local {
        flags |= general::CUR_REQ;
    }
    if location.is_going {
        flags |= general::GOING;
    }
    let info = ServerInfo {
        flags,
        transport_flags: 0,
        // Each metaserver has all acknowledged changes, and all state of a client.
        simultaneous_use: ALIKE,
        handle: ALIKE,
        fileid: ALIKE,
        // Write verifiers differ, as they must after a restart, and are never equal by chance.
        write_verifier: ALIKE,
        change: ALIKE,
        readdir: ALIKE,
        read_rank: location.rank,
        write_rank: location.rank,
        read_order: 0,
        write_order: 0,
    };
    FsLocationsServer { currency_s: 0, info: info.to_bytes(), server: name(location.address) }
}

/// Address in the format of clients.
fn name(address: SocketAddr) -> Bytes {
    match address.port() {
        NFS_PORT => address.ip().to_string().into(),
        _ => NetAddr::tcp(address).uaddr,
    }
}

fn seconds(time: Duration) -> i32 {
    i32::try_from(time.as_secs()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: &str = "10.0.0.9:2049";

    fn members(serve: &[&str]) -> Vec<(NodeId, Member, bool)> {
        let member = |serves: &&str| Member { serves: (*serves).into(), ..Member::default() };
        (1..).zip(serve.iter().map(member)).map(|(id, member)| (id, member, true)).collect()
    }

    fn with_services(addresses: &[&str]) -> ClusterMap {
        let mut map = ClusterMap::default();
        map.head.service_addresses = addresses.iter().map(|a| a.parse().unwrap()).collect();
        map
    }

    fn draining(id: NodeId) -> ClusterMap {
        let node = namespace::Node {
            key: NodeKey::Metaserver(id),
            name: String::new(),
            address: String::new(),
            version: String::new(),
            state: NodeState::Draining,
        };
        ClusterMap { nodes: vec![node], ..ClusterMap::default() }
    }

    fn named(all: &[Location]) -> String {
        let names = first_choice(all).map(|l| String::from_utf8(name(l.address).to_vec()).unwrap());
        names.collect::<Vec<_>>().join(" ")
    }

    fn at(serve: &[&str], map: &ClusterMap) -> Vec<Location> {
        locations(&members(serve), map, LOCAL.parse().unwrap())
    }

    #[test]
    fn clients_are_told_of_every_metaserver_and_of_ports_that_are_not_the_usual_one() {
        let map = ClusterMap::default();
        assert_eq!(named(&at(&["10.0.0.1:2049", "10.0.0.2:2049"], &map)), "10.0.0.1 10.0.0.2");
        assert_eq!(
            named(&at(&["127.0.0.1:3049", "[fd00::1]:3049"], &map)),
            "127.0.0.1.11.233 fd00::1.11.233"
        );
        let many = vec!["10.0.0.1:2049"; 100];
        assert_eq!(at(&many, &map).len(), LOCATIONS_MAX);
    }

    #[test]
    fn a_metaserver_that_has_no_others_names_the_address_that_it_was_asked_at() {
        assert_eq!(named(&at(&[""], &ClusterMap::default())), "10.0.0.9");
        assert_eq!(named(&at(&["0.0.0.0:2049"], &ClusterMap::default())), "10.0.0.9");
    }

    #[test]
    fn addresses_that_move_are_better_than_those_that_do_not() {
        let all = at(&["10.0.0.1:2049", "10.0.0.2:2049"], &with_services(&["10.0.0.100", "10.0.0.101"]));
        assert_eq!(named(&all), "10.0.0.100 10.0.0.101");
        assert_eq!(all.iter().map(|location| location.rank).collect::<Vec<_>>(), [0, 0, 1, 1]);
    }

    #[test]
    fn nobody_is_sent_to_a_metaserver_that_drains_unless_there_is_no_other() {
        let all = at(&["10.0.0.1:2049", "10.0.0.2:2049"], &draining(2));
        assert_eq!(named(&all), "10.0.0.1");
        let flags = |location: &Location| entry(location, "10.0.0.1:2049".parse().unwrap()).info[0];
        assert_eq!(flags(&all[0]), general::WRITABLE | general::CUR_REQ);
        assert_eq!(flags(&all[1]), general::WRITABLE | general::GOING);
        assert_eq!(named(&at(&["10.0.0.1:2049"], &draining(1))), "10.0.0.1");
    }
}
