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
use std::os::fd::OwnedFd;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, getrlimit};

/// Name pattern; the kernel inserts the first free number.
const NAME: &str = "heorot%d";
/// Maximal number of the descriptor: the descriptor table has 8 bytes for each number below it.
const DESCRIPTOR_MAX: u64 = 1 << 16;

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
        let most = getrlimit(Resource::Nofile).current.unwrap_or(DESCRIPTOR_MAX).min(DESCRIPTOR_MAX);
        let highest = i32::try_from(most.saturating_sub(1)).unwrap_or(i32::MAX);
        let descriptor = fcntl_dupfd_cloexec(&device, highest)?;
        Ok(Self { name, _descriptor: descriptor })
    }
}

/// Whether `interface` answers ARP for addresses of other interfaces, which is Linux's default.
pub(super) fn answers_for_others(interface: &str) -> bool {
    let setting = |of: &str| fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{of}/arp_ignore"));
    // The larger of both settings applies.
    ["all", interface].iter().all(|of| setting(of).is_ok_and(|value| value.trim() == "0"))
}
