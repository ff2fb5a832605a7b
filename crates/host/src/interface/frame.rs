//! Ethernet frames that announce an address.
//!
//! ```text
//! gratuitous ARP (RFC 826, RFC 5227 section 3), 42 bytes           offset
//!   all | our MAC | 0806                                           0   to, from, type
//!   0001 0800 06 04 | 1 request, 2 reply                           14  Ethernet, IPv4, lengths, operation
//!   our MAC | address                                              22  sender
//!   0 or our MAC | address                                         32  target
//!
//! unsolicited neighbour advertisement (RFC 4861 section 4.4), 86 bytes
//!   33:33:00:00:00:01 | our MAC | 86dd                             0
//!   version 6, length 32, ICMPv6, hop limit 255 | address | ff02::1    14
//!   136 0 checksum | override | address | 2 1 our MAC              54  ... target, target link-layer address
//! ```

use std::net::{Ipv4Addr, Ipv6Addr};

use super::Mac;

const BROADCAST: Mac = Mac([0xff; 6]);
/// MAC address of ff02::1 (RFC 2464, section 7).
const ALL_NODES_MAC: Mac = Mac([0x33, 0x33, 0, 0, 0, 1]);
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

const ETHERTYPE_ARP: u16 = 0x0806;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ICMPV6: u8 = 58;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
/// Flags: not from a router, not solicited, override the cached entry.
const OVERRIDE: u32 = 0x2000_0000;
const TARGET_LINK_LAYER_ADDRESS: u8 = 2;

/// Forms of gratuitous ARP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arp {
    /// ARP announcement of RFC 5227.
    Request,
    /// ARP reply, which older machines expect.
    Reply,
}

/// Gratuitous ARP frame: `address` is at `mac`.
pub(super) fn gratuitous_arp(form: Arp, mac: Mac, address: Ipv4Addr) -> Vec<u8> {
    let (operation, target) = match form {
        Arp::Request => (1_u16, Mac([0; 6])),
        Arp::Reply => (2, mac),
    };
    let mut frame = ethernet(BROADCAST, mac, ETHERTYPE_ARP);
    frame.extend([0, 1, 8, 0, 6, 4]);
    frame.extend(operation.to_be_bytes());
    frame.extend(mac.0);
    frame.extend(address.octets());
    frame.extend(target.0);
    frame.extend(address.octets());
    frame
}

/// Unsolicited neighbour advertisement to all nodes: `address` is at `mac`.
pub(super) fn neighbour_advertisement(mac: Mac, address: Ipv6Addr) -> Vec<u8> {
    let mut message = vec![NEIGHBOUR_ADVERTISEMENT, 0, 0, 0];
    message.extend(OVERRIDE.to_be_bytes());
    message.extend(address.octets());
    message.extend([TARGET_LINK_LAYER_ADDRESS, 1]); // in units of 8 bytes
    message.extend(mac.0);
    let checksum = icmpv6_checksum(address, ALL_NODES, &message);
    message[2..4].copy_from_slice(&checksum.to_be_bytes());

    let mut frame = ethernet(ALL_NODES_MAC, mac, ETHERTYPE_IPV6);
    frame.extend(0x6000_0000_u32.to_be_bytes());
    frame.extend((message.len() as u16).to_be_bytes());
    frame.extend([ICMPV6, 255]); // receivers drop what a router might have passed on
    frame.extend(address.octets());
    frame.extend(ALL_NODES.octets());
    frame.extend(message);
    frame
}

fn ethernet(to: Mac, from: Mac, ethertype: u16) -> Vec<u8> {
    [&to.0[..], &from.0, &ethertype.to_be_bytes()].concat()
}

/// Checksum over pseudo-header and message (RFC 8200, section 8.1). `message` has an even number of bytes,
/// and zeros as its checksum.
fn icmpv6_checksum(from: Ipv6Addr, to: Ipv6Addr, message: &[u8]) -> u16 {
    let mut bytes = [from.octets(), to.octets()].concat();
    bytes.extend((message.len() as u32).to_be_bytes());
    bytes.extend([0, 0, 0, ICMPV6]);
    bytes.extend(message);
    let sum: u32 = bytes.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: Mac = Mac([0x02, 0x00, 0x5e, 0x10, 0x00, 0x01]);

    #[test]
    fn gratuitous_arp_names_its_sender_as_its_target() {
        let hex = |form| hex::encode(gratuitous_arp(form, MAC, Ipv4Addr::new(10, 77, 1, 50)));
        assert_eq!(
            hex(Arp::Request),
            "ffffffffffff 02005e100001 0806 0001080006040001 02005e100001 0a4d0132 000000000000 0a4d0132"
                .replace(' ', "")
        );
        assert_eq!(
            hex(Arp::Reply),
            "ffffffffffff 02005e100001 0806 0001080006040002 02005e100001 0a4d0132 02005e100001 0a4d0132"
                .replace(' ', "")
        );
    }

    #[test]
    fn a_neighbour_advertisement_adds_up() {
        let address: Ipv6Addr = "fd77::50".parse().expect("an address");
        let frame = neighbour_advertisement(MAC, address);
        assert_eq!(
            hex::encode(&frame[..54]),
            "333300000001 02005e100001 86dd 60000000 0020 3a ff fd770000000000000000000000000050 \
             ff020000000000000000000000000001"
                .replace(' ', "")
        );
        let message = &frame[54..];
        assert_eq!(hex::encode(&message[..2]), "8800");
        assert_eq!(
            hex::encode(&message[4..]),
            "20000000 fd770000000000000000000000000050 0201 02005e100001".replace(' ', "")
        );
        // The sum of a receiver, including the checksum, must be 0.
        assert_eq!(icmpv6_checksum(address, ALL_NODES, message), 0);
        assert_ne!(message[2..4], [0, 0]);
    }
}
