//! Interfaces of the machine, through rtnetlink and a packet socket.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressMessage, AddressProtocol, CacheInfo,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::{LinkAddr, MsgFlags, SockaddrStorage};
use parking_lot::{Mutex, MutexGuard};
use rustix::io::Errno;
use rustix::net::netdevice::{index_to_name, name_to_index};

use super::device::{Device, answers_for_others};
use super::frame::{Arp, gratuitous_arp, neighbour_advertisement};
use super::netlink::Netlink;
use super::segment::ack;
use super::{Error, Holding, Interfaces, Mac, Result, check_unicast, whole_seconds};

/// IFA_PROTO of Heorot's addresses: `H`. Kernels before 5.18 ignore it.
const PROTOCOL: AddressProtocol = AddressProtocol::Other(0x48);

/// Suffix of IFA_LABEL, which only IPv4 has.
const LABEL_END: &str = ":hrt";

/// Maximal length of a label, without the zero at its end (IFNAMSIZ).
const LABEL_BYTES_MAX: usize = 15;

/// ARPHRD_ETHER.
const ETHERNET: u16 = 1;

/// Interfaces of one network namespace: the one in which it was opened and must be used.
#[derive(Debug)]
pub struct SystemInterfaces {
    netlink: Mutex<Netlink>,
    /// Packet socket without a protocol: sends frames and receives none.
    packets: OwnedFd,
    /// Device for IPv4 addresses.
    device: Option<Device>,
}

impl SystemInterfaces {
    /// Opens the interfaces and checks the permission to change addresses, without a change.
    ///
    /// # Errors
    /// [`Error::NotAllowed`], or an error if the kernel has no rtnetlink or packet sockets.
    pub fn open() -> Result<Self> {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
        let mut netlink = Netlink::open().map_err(Error::refused("open an rtnetlink socket"))?;
        let packets = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)
            .map_err(|e| Error::refused("open a packet socket")(e.into()))?;
        // The kernel checks CAP_NET_ADMIN before it finds that interface 0 does not exist.
        let nothing = RouteNetlinkMessage::DelAddress(message(IpAddr::from([0, 0, 0, 0]), 0));
        match netlink.request(nothing, 0) {
            Err(e) if e.raw_os_error() == Some(Errno::PERM.raw_os_error()) => Err(Error::NotAllowed),
            _ => Ok(Self { netlink: Mutex::new(netlink), packets, device: None }),
        }
    }

    /// Makes IPv4 addresses end with this process, or with the drop of this value, not only with their
    /// lifetime. Call it after all listeners are open.
    ///
    /// # Errors
    /// When the machine has no TUN devices, or this process may not make one.
    pub fn go_with_process(&mut self) -> Result<()> {
        self.device = Some(Device::open().map_err(Error::refused("make a TUN device"))?);
        Ok(())
    }

    /// Interface or device for an address whose neighbours are on `interface`.
    fn place(&self, address: IpAddr, interface: &str) -> String {
        match &self.device {
            Some(device) if address.is_ipv4() && answers_for_others(interface) => device.name.clone(),
            _ => interface.to_owned(),
        }
    }

    fn netlink(&self) -> MutexGuard<'_, Netlink> {
        self.netlink.lock()
    }

    fn index(&self, interface: &str) -> Result<u32> {
        name_to_index(self.netlink().socket(), interface)
            .map_err(|_| Error::NoInterface(interface.to_owned()))
    }

    /// The interface may be gone; then its index is its name in a message.
    fn name(&self, index: u32) -> String {
        index_to_name(self.netlink().socket(), index).unwrap_or_else(|_| format!("interface {index}"))
    }

    fn addresses(&self, family: AddressFamily) -> Result<Vec<Present>> {
        let mut question = AddressMessage::default();
        question.header.family = family;
        let answers = self
            .netlink()
            .dump(RouteNetlinkMessage::GetAddress(question))
            .map_err(Error::refused("list the machine's addresses"))?;
        let present = answers.iter().filter_map(|answer| match answer {
            RouteNetlinkMessage::NewAddress(message) => Present::read(message),
            _ => None,
        });
        Ok(present.collect())
    }

    fn remove(&self, address: IpAddr, index: u32) -> Result<()> {
        let removed = self.netlink().request(RouteNetlinkMessage::DelAddress(message(address, index)), 0);
        match removed {
            Err(e) if e.raw_os_error() != Some(Errno::ADDRNOTAVAIL.raw_os_error()) => {
                Err(Error::refused(format!("remove {address} from {}", self.name(index)))(e))
            }
            _ => Ok(()), // or it went by itself since we looked
        }
    }

    /// Entry of the kernel's neighbour table (queries for one neighbour need Linux 5.0).
    fn neighbour(&self, address: IpAddr, index: u32) -> Result<Option<(NeighbourState, Option<Mac>)>> {
        let question = RouteNetlinkMessage::GetNeighbour(neighbour(address, index));
        let answers = match self.netlink().request(question, 0) {
            Err(e) if e.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => return Ok(None),
            answers => answers.map_err(Error::refused(format!("look up the neighbour {address}")))?,
        };
        Ok(answers.into_iter().find_map(|answer| match answer {
            RouteNetlinkMessage::NewNeighbour(message) => {
                let mac = message.attributes.iter().find_map(|attribute| match attribute {
                    NeighbourAttribute::LinkLayerAddress(bytes) => bytes.as_slice().try_into().ok().map(Mac),
                    _ => None,
                });
                Some((message.header.state, mac))
            }
            _ => None,
        }))
    }

    fn send(&self, frame: &[u8], interface: &str, link: &LinkAddr) -> Result<()> {
        // The kernel uses only the index of `link`: the frame has the rest.
        nix::sys::socket::sendto(self.packets.as_raw_fd(), frame, link, MsgFlags::MSG_DONTWAIT)
            // EPERM here is from a firewall: only opening the socket needs a capability.
            .map_err(|e| Error::Refused { doing: format!("send a frame on {interface}"), error: e.into() })?;
        Ok(())
    }
}

impl Interfaces for SystemInterfaces {
    fn find(&self, address: IpAddr, named: Option<&str>) -> Result<String> {
        check_unicast(address)?;
        if let Some(named) = named {
            return self.index(named).map(|_| named.to_owned());
        }
        let networks = self.addresses(family(address))?;
        networks
            .iter()
            .filter(|present| !present.ours && present.is_network_of(address))
            .max_by_key(|present| (present.prefix, std::cmp::Reverse(present.index)))
            .map(|present| self.name(present.index))
            .ok_or(Error::NoNetwork(address))
    }

    fn held(&self) -> Result<Vec<Holding>> {
        let mut ours = self.addresses(AddressFamily::Unspec)?;
        ours.retain(|present| present.ours);
        let holding = |present: Present| Holding {
            address: present.address,
            interface: self.name(present.index),
            left: present.left,
        };
        Ok(ours.into_iter().map(holding).collect())
    }

    fn hold(&self, address: IpAddr, interface: &str, time: Duration) -> Result<()> {
        check_unicast(address)?;
        let seconds = whole_seconds(time);
        let interface = &*self.place(address, interface);
        let index = self.index(interface)?;
        let mut present = self.addresses(family(address))?;
        present.retain(|present| present.address == address);
        if let Some(theirs) = present.iter().find(|present| !present.ours) {
            return Err(Error::Administrators { address, interface: self.name(theirs.index) });
        }
        // Replace only a service address; NLM_F_EXCL protects one that the administrator adds at the same
        // time.
        let renews = present.iter().any(|present| present.index == index);
        let flags = NLM_F_CREATE | if renews { NLM_F_REPLACE } else { NLM_F_EXCL };
        self.netlink()
            .request(
                RouteNetlinkMessage::NewAddress(with_lifetime(address, index, interface, seconds)),
                flags,
            )
            .map_err(Error::refused(format!("add {address} to {interface}")))?;
        present
            .iter()
            .filter(|present| present.index != index)
            .try_for_each(|present| self.remove(address, present.index))
    }

    fn release(&self, address: IpAddr) -> Result<()> {
        let present = self.addresses(family(address))?;
        present
            .iter()
            .filter(|present| present.ours && present.address == address)
            .try_for_each(|present| self.remove(address, present.index))
    }

    fn announce(&self, address: IpAddr, interface: &str) -> Result<()> {
        let Some((link, mac)) = ethernet(interface)? else { return Ok(()) };
        match address {
            IpAddr::V4(v4) => {
                self.send(&gratuitous_arp(Arp::Request, mac, v4), interface, &link)?;
                self.send(&gratuitous_arp(Arp::Reply, mac, v4), interface, &link)
            }
            IpAddr::V6(v6) => self.send(&neighbour_advertisement(mac, v6), interface, &link),
        }
    }

    fn tickle(&self, from: SocketAddr, to: SocketAddr, sequence: u32) -> Result<()> {
        use rustix::net::{
            AddressFamily, SendFlags, SocketFlags, SocketType, bind, ipproto, sendto, socket_with,
        };
        let family = if from.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        // The kernel makes the IP header and finds the route. The segment has the ports.
        let send = || {
            let socket = socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, Some(ipproto::TCP))?;
            bind(&socket, &SocketAddr::new(from.ip(), 0))?;
            let segment = ack(from, to, sequence);
            sendto(&socket, &segment, SendFlags::DONTWAIT, &SocketAddr::new(to.ip(), 0)).map(drop)
        };
        send().map_err(|e: Errno| Error::refused(format!("send {to} a segment from {from}"))(e.into()))
    }

    fn solicit(&self, address: IpAddr, interface: &str) -> Result<()> {
        check_unicast(address)?;
        let index = self.index(interface)?;
        if ethernet(interface)?.is_none() {
            return Ok(());
        }
        if address.is_ipv6() {
            let ready = |present: &Present| present.index == index && present.is_link_local && present.ready;
            if !self.addresses(AddressFamily::Inet6)?.iter().any(ready) {
                return Err(Error::NoLinkLocal(interface.to_owned()));
            }
        }
        let doing = || format!("ask for {address} on {interface}");
        match self.neighbour(address, index)? {
            // A permanent entry of the administrator: it stays, and answers.
            Some((NeighbourState::Permanent, _)) => return Ok(()),
            // The entry may be of a dead machine: remove it. The kernel solicits for a new entry at once.
            Some(_) => {
                let forget = RouteNetlinkMessage::DelNeighbour(neighbour(address, index));
                match self.netlink().request(forget, 0) {
                    Err(e) if e.raw_os_error() != Some(Errno::NOENT.raw_os_error()) => {
                        return Err(Error::refused(doing())(e));
                    }
                    _ => {}
                }
            }
            None => {}
        }
        let mut ask = neighbour(address, index);
        ask.header.flags = NeighbourFlags::Use;
        self.netlink()
            .request(RouteNetlinkMessage::NewNeighbour(ask), NLM_F_CREATE)
            .map(|_| ())
            .map_err(Error::refused(doing()))
    }

    fn answered(&self, address: IpAddr, interface: &str) -> Result<Option<Mac>> {
        use NeighbourState::{Delay, Permanent, Probe, Reachable, Stale};
        let index = self.index(interface)?;
        Ok(match self.neighbour(address, index)? {
            Some((Reachable | Stale | Delay | Probe | Permanent, mac)) => mac,
            _ => None,
        })
    }
}

/// Address on this machine.
#[derive(Debug)]
struct Present {
    address: IpAddr,
    prefix: u8,
    index: u32,
    ours: bool,
    is_link_local: bool,
    /// Whether the address is usable: not tentative, and no duplicate.
    ready: bool,
    left: Duration,
}

impl Present {
    fn read(message: &AddressMessage) -> Option<Self> {
        let (mut local, mut peer, mut lifetime, mut protocol, mut label) = (None, None, None, None, "");
        let mut flags = AddressFlags::from_bits_retain(message.header.flags.bits().into());
        for attribute in &message.attributes {
            match attribute {
                AddressAttribute::Local(address) => local = Some(*address),
                AddressAttribute::Address(address) => peer = Some(*address),
                AddressAttribute::CacheInfo(info) => lifetime = Some(info.ifa_valid),
                AddressAttribute::Protocol(found) => protocol = Some(*found),
                AddressAttribute::Label(found) => label = found,
                AddressAttribute::Flags(found) => flags = *found,
                _ => {}
            }
        }
        let address = local.or(peer)?;
        let is_alone = message.header.prefix_len == alone(address);
        // Before Linux 5.18 an IPv6 address has no other mark. Autoconfigured addresses are checked and
        // preferred, so no other program's address has these flags.
        let unnamed = address.is_ipv6()
            && protocol.is_none()
            && flags.contains(AddressFlags::Nodad | AddressFlags::Deprecated);
        let marked = protocol == Some(PROTOCOL) || label.ends_with(LABEL_END) || unnamed;
        Some(Self {
            address,
            prefix: message.header.prefix_len,
            index: message.header.index,
            ours: marked && is_alone && !flags.contains(AddressFlags::Permanent),
            is_link_local: matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local()),
            ready: !flags.intersects(AddressFlags::Tentative | AddressFlags::Dadfailed),
            left: Duration::from_secs(lifetime.unwrap_or(u32::MAX).into()),
        })
    }

    fn is_network_of(&self, address: IpAddr) -> bool {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
            IpAddr::V6(v6) => v6.to_bits(),
        };
        let differ = bits(self.address) ^ bits(address);
        self.address.is_ipv4() == address.is_ipv4()
            && self.prefix < alone(address)
            && differ.leading_zeros() >= self.prefix.into()
    }
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

/// Prefix length of a network with one address.
fn alone(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn message(address: IpAddr, index: u32) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = family(address);
    message.header.prefix_len = alone(address);
    message.header.index = index;
    message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
    message
}

fn with_lifetime(address: IpAddr, index: u32, interface: &str, seconds: u32) -> AddressMessage {
    let mut lifetime = CacheInfo::default();
    lifetime.ifa_valid = seconds;
    let mut message = message(address, index);
    if address.is_ipv4() {
        lifetime.ifa_preferred = seconds;
        let room = LABEL_BYTES_MAX - LABEL_END.len();
        let start: String = interface.chars().take(room).collect();
        message.attributes.push(AddressAttribute::Label(format!("{start}{LABEL_END}")));
    } else {
        // [`take`] has checked for conflicts: the address must serve at once, without the kernel's own check
        // of a second.
        message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
    }
    message.attributes.push(AddressAttribute::CacheInfo(lifetime));
    message.attributes.push(AddressAttribute::Protocol(PROTOCOL));
    message
}

fn neighbour(address: IpAddr, index: u32) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = family(address);
    message.header.ifindex = index;
    message.attributes = vec![NeighbourAttribute::Destination(match address {
        IpAddr::V4(v4) => NeighbourAddress::Inet(v4),
        IpAddr::V6(v6) => NeighbourAddress::Inet6(v6),
    })];
    message
}

/// Device for frames and its MAC address; `None` if it has no neighbours.
fn ethernet(interface: &str) -> Result<Option<(LinkAddr, Mac)>> {
    let interfaces = nix::ifaddrs::getifaddrs()
        .map_err(|e| Error::refused(format!("look up the MAC address of {interface}"))(e.into()))?;
    let (flags, link) = interfaces
        .filter(|entry| entry.interface_name == interface)
        .find_map(|entry| {
            Some((entry.flags, *entry.address.as_ref().and_then(SockaddrStorage::as_link_addr)?))
        })
        .ok_or_else(|| Error::NoInterface(interface.to_owned()))?;
    if flags.intersects(InterfaceFlags::IFF_LOOPBACK | InterfaceFlags::IFF_NOARP) {
        return Ok(None);
    }
    match link.addr() {
        Some(mac) if link.hatype() == ETHERNET => Ok(Some((link, Mac(mac)))),
        _ => Err(Error::NotEthernet(interface.to_owned())),
    }
}
