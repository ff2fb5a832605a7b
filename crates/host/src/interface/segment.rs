//! TCP segment that makes a client detect a lost connection: an ACK of a connection that this machine does
//! not have (RFC 9293, section 3.1).
//!
//! ```text
//!   client                                            next holder of the address
//!     |<-- ACK with any number, from the old holder's port --|
//!     |-- ACK with the connection's own numbers ------------>|   (not acceptable: RFC 9293, 3.10.7.4)
//!     |<-------------------------------- RST with those -----|   its kernel does not have the connection
//!     |-- SYN ---------------------------------------------->|
//! ```
//!
//! CTDB calls this a tickle. A hand-made RST would need the sequence number that the client expects.

use std::net::{IpAddr, SocketAddr};

const HEADER_BYTES: u16 = 20;
const ACK: u16 = 1 << 4;
const TCP: u8 = 6;
/// Window, not 0: a window of 0 would stop the client.
const WINDOW: u16 = 512;

/// ACK from `from` to `to` with this sequence number, without data.
pub(super) fn ack(from: SocketAddr, to: SocketAddr, sequence: u32) -> Vec<u8> {
    let mut segment = Vec::with_capacity(HEADER_BYTES.into());
    segment.extend(from.port().to_be_bytes());
    segment.extend(to.port().to_be_bytes());
    segment.extend(sequence.to_be_bytes());
    segment.extend(sequence.to_be_bytes()); // what it acknowledges: as arbitrary
    segment.extend((((HEADER_BYTES / 4) << 12) | ACK).to_be_bytes());
    segment.extend(WINDOW.to_be_bytes());
    segment.extend([0; 4]); // checksum, urgent pointer
    let sum = checksum(from.ip(), to.ip(), &segment);
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    segment
}

/// Checksum over pseudo-header and segment (RFC 9293, section 3.1; RFC 8200, section 8.1). `segment` has an
/// even number of bytes.
fn checksum(from: IpAddr, to: IpAddr, segment: &[u8]) -> u16 {
    let octets = |address: IpAddr| match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let mut bytes = [octets(from), octets(to)].concat();
    bytes.extend([0, TCP]);
    bytes.extend((segment.len() as u16).to_be_bytes());
    bytes.extend(segment);
    let sum: u32 = bytes.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ack_names_both_ports_and_adds_up() {
        for (from, to) in [("10.77.0.240:2049", "10.77.0.10:834"), ("[fd77::1]:2049", "[fd77::2]:834")] {
            let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
            let segment = ack(from, to, 0xfeed_0007);
            assert_eq!(segment.len(), 20);
            assert_eq!(segment[..4], [0x08, 0x01, 0x03, 0x42]);
            assert_eq!(segment[12..14], [0x50, 0x10], "five words, and only ACK");
            // The sum of a receiver, including the checksum, must be 0.
            assert_eq!(checksum(from.ip(), to.ip(), &segment), 0);
            assert_ne!(segment[16..18], [0, 0]);
        }
    }
}
