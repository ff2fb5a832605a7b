//! A network device that goes when its process does, with the addresses on it: a TUN device that is not made
//! persistent is removed by the kernel when its descriptor is closed.
//!
//! ```text
//!   client ──▶ eth0 (answers ARP for every address of IPv4 that this machine has) ──▶ address on heorot0 ──▶ listener
//!   kill -9:  heorot0 is closed ── its addresses are gone ── then the listener is closed, and no client is refused
//! ```
//!
//! **Why.** A client that connects after the listener was closed and before the address is gone is refused,
//! and Linux then leaves the server alone for 3 s, and for 6 s the next time. A connection to an address that
//! nobody has is just tried again, and what says that the old one is gone comes from the next holder
//! ([`super::Interfaces::tickle`]).
//!
//! **The order** in which a dead process's descriptors are closed is the kernel's: `close_files` in fs/file.c
//! goes through them from 0 up and leaves each to be closed later, and `task_work_run` in kernel/task_work.c
//! does what was left last first. So ours has a higher number than any listener.
//!
//! Nothing is ever read from the device, and nothing is sent there: the address is this machine's own. It is
//! of no use to IPv6, whose neighbours are answered only on the interface that has the address
//! (`ndisc_recv_ns` in net/ipv6/ndisc.c).

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, getrlimit};

/// The kernel puts the first free number there.
const NAME: &str = "heorot%d";
/// The table of descriptors grows up to the highest: 8 bytes for each below it.
const DESCRIPTOR_MAX: u64 = 1 << 16;

/// The device.
#[derive(Debug)]
pub(super) struct Device {
    pub name: String,
    _descriptor: OwnedFd,
}

impl Device {
    /// Makes one, in the network namespace of this thread.
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

/// Whether `interface` answers ARP for addresses that other interfaces have, as Linux does unless it is told
/// otherwise.
pub(super) fn answers_for_others(interface: &str) -> bool {
    let setting = |of: &str| fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{of}/arp_ignore"));
    // The larger one counts.
    ["all", interface].iter().all(|of| setting(of).is_ok_and(|value| value.trim() == "0"))
}
