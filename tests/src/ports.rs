//! Ports of 127.0.0.1 for servers without a lab.

use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the ports that the kernel gives to clients, so that a connection of another test takes none of
/// these.
const PORTS: Range<u16> = 20_500..32_000;
/// Ports of one call: the maximal number for one test's servers.
const BLOCK: u16 = 8;

/// `count` (8 at most) consecutive free ports, which no other call in this process returns. Other test
/// processes search at the same time: each begins at another port.
///
/// # Panics
/// If there are no free ports.
#[track_caller]
pub fn free_ports(count: u16) -> Range<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    assert!(count <= BLOCK, "{count} ports are more than one test gets");
    let blocks = PORTS.len() / usize::from(BLOCK);
    for _ in 0..blocks {
        let turn = std::process::id() as usize * 16 + usize::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let first = PORTS.start + (turn % blocks) as u16 * BLOCK;
        let ports = first..first + count;
        if ports.clone().all(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()) {
            return ports;
        }
    }
    panic!("no {count} free ports in a row in {PORTS:?}");
}
