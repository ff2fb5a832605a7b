//! Ports of 127.0.0.1 for servers that are not in a lab.

use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below those that the kernel gives to clients, so that no connection of another test takes one of ours.
const PORTS: Range<u16> = 20_500..32_000;
/// Handed out together: as many as one test's servers need at most.
const BLOCK: u16 = 8;

/// `count` (8 at most) consecutive ports that nobody listens on, and that no other call in this process
/// returns. Other test processes look for theirs at the same time: each begins somewhere else.
///
/// # Panics
/// If there are none.
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
