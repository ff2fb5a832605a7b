//! TUN device that ends with its process, with the addresses on it: the kernel removes a device that is not
//! persistent when its descriptor is closed.
//!
//! ```text
//!   client ──▶ eth0 (answers ARP for all IPv4 addresses of the machine) ──▶ address on heorot0 ──▶ listener
//!   kill -9:  the kernel closes heorot0, removes its addresses, then closes the listener: no refused client
//! ```
//!
//! **Why.** A client that connects after the listener was closed and before the address is gone is refused,
//! and Linux then does not retry for 3 s, and the next time for 6 s. A connection to an address without a
//! holder is simply retried, and the next holder tells the client that the old connection is gone
//! ([`super::Interfaces::tickle`]).
//!
//! **Order.** The kernel determines in which order it closes a dead process's descriptors: `close_files` in
//! fs/file.c queues each from 0 up, and `task_work_run` in kernel/task_work.c closes the last queued first.
//! So the device's descriptor has a higher number than any listener.
//!
//! The process never reads from the device, and nothing is sent there: the address is local. The device does
//! not help IPv6, where only the interface with the address answers neighbours (`ndisc_recv_ns` in
//! net/ipv6/ndisc.c).

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, getrlimit};

/// Name pattern; the kernel inserts the first free number.
const NAME: &str = "heorot%d";
/// Maximal number of the descriptor: the descriptor table has 8 bytes for each number below it.
const DESCRIPTOR_MAX: u64 = 1 << 16;
/// Numbers below it that are tried: other devices may have the highest ones.
const TRIES_MAX: i32 = 64;

/// TUN device.
#[derive(Debug)]
pub(super) struct Device {
    pub name: String,
    _descriptor: OwnedFd,
}

impl Device {
    /// Makes a device in the network namespace of this thread.
    ///
    /// # Errors
    /// When the machine has no TUN devices, or this process may not make one.
    pub(super) fn open() -> io::Result<Self> {
        let device = tun_rs::DeviceBuilder::new().name(NAME).build_sync()?;
        let name = device.name()?;
        Ok(Self { name, _descriptor: at_the_end(&device)? })
    }
}

/// Copy of a descriptor with the highest free number.
fn at_the_end(descriptor: &impl AsFd) -> io::Result<OwnedFd> {
    let most = getrlimit(Resource::Nofile).current.unwrap_or(DESCRIPTOR_MAX).min(DESCRIPTOR_MAX);
    let highest = i32::try_from(most.saturating_sub(1)).unwrap_or(i32::MAX);
    let taken = |outcome: &Result<OwnedFd, Errno>| matches!(outcome, Err(Errno::MFILE));
    let mut lower =
        (0..TRIES_MAX).map(|below| fcntl_dupfd_cloexec(descriptor, highest.saturating_sub(below)));
    let outcome = lower.find(|outcome| !taken(outcome)).unwrap_or(Err(Errno::MFILE));
    Ok(outcome?)
}

/// Whether `interface` answers ARP for addresses of other interfaces, which is Linux's default.
pub(super) fn answers_for_others(interface: &str) -> bool {
    let setting = |of: &str| fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{of}/arp_ignore"));
    // The larger of both settings applies.
    ["all", interface].iter().all(|of| setting(of).is_ok_and(|value| value.trim() == "0"))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn several_devices_have_numbers_at_the_end() {
        let file = fs::File::open("/dev/null").unwrap();
        let copies: Vec<OwnedFd> = (0..5).map(|_| at_the_end(&file).unwrap()).collect();
        let most = getrlimit(Resource::Nofile).current.unwrap_or(DESCRIPTOR_MAX).min(DESCRIPTOR_MAX);
        let numbers: Vec<u64> = copies.iter().map(|copy| copy.as_raw_fd() as u64).collect();
        let tries = TRIES_MAX as u64;
        assert!(numbers.iter().all(|number| (most - tries..most).contains(number)), "{numbers:?}");
    }
}
