//! Service addresses on a machine's interfaces. In: an address and its hold time. Out: an address on an
//! interface, and frames that announce it. The assignment of addresses to machines is elsewhere.
//!
//! ```text
//!   holder  add for 6 s ── renew ── renew ── killed, hung, or without contact to the leader
//!   kernel  |<-- 6 s -->|<-- 6 s -->|<-- 6 s -->| removes the address, without any process
//!   next holder                                   checks for another holder ── adds ── announces
//! ```
//!
//! **The kernel is the fence.** An address has a valid lifetime (IFA_CACHEINFO), and the kernel removes it
//! unless it is renewed. A holder that was killed, stopped, or swapped out, cannot keep it; one without
//! contact to the leader stops renewing. The kernel may be late by [`EXPIRY_LATE_MAX`]. Its timer stands
//! still while a machine is suspended: after the suspend the machine still has its addresses for the rest of
//! the lifetime.
//!
//! **IPv4 addresses end with their holder** on a machine with TUN devices: such an address is on a device of
//! the process ([`device`]), which the kernel removes when the process dies. The lifetime is for a server
//! that hangs or is cut off.
//!
//! **An address has a network of its own** (/32, or /128): Linux removes the other addresses of a network
//! together with the first one, and the first one must never be a service address. It also makes no route. A
//! service address of IPv6 is deprecated from the start (preferred lifetime 0), so that the kernel does not
//! choose it as the source of outgoing connections; incoming connections still work (RFC 4862, section
//! 5.5.4).
//!
//! **Service addresses are marked** (label `INTERFACE:hrt`, IFA_PROTO), so that a restarted server takes over
//! the addresses of its earlier process and never changes those of the administrator.
//!
//! **Conflict check.** Linux detects a duplicate only after the address was added (duplicate address
//! detection of RFC 4862), and for IPv4 not at all. So this module checks before: it makes the kernel's
//! neighbour discovery look for the address; a machine that answers has it. RFC 5227 has a probe for this
//! with an empty sender, so that neighbours do not cache a wrong address: the kernel sends with this
//! machine's own address, which they may cache.

mod device;
mod error;
mod fake;
mod frame;
mod netlink;
mod segment;
mod system;
mod take;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

pub use error::{Error, Result};
pub use fake::{FakeInterfaces, FakeNetwork};
pub use system::SystemInterfaces;
pub use take::{ANNOUNCEMENT_GAPS, Patience, announce_with_gaps, owner_elsewhere, take};

/// Maximal delay of the kernel's removal of an address. Linux checks lifetimes at whole seconds if those are
/// at most a quarter of a second away, and at most once a second (`check_lifetime` in net/ipv4/devinet.c,
/// `addrconf_verify_rtnl` in net/ipv6/addrconf.c); with several addresses 0.9 s were measured. The next
/// holder of an address also waits for this delay.
pub const EXPIRY_LATE_MAX: Duration = Duration::from_millis(1250);

/// Minimal hold time: the kernel counts in seconds.
pub const HOLD_MIN: Duration = Duration::from_secs(1);

/// Interfaces of one machine.
///
/// Calls take 10 to 70 microseconds and may be made from async code. The kernel changes addresses one at a
/// time: a call waits some milliseconds while another program changes addresses or interfaces.
pub trait Interfaces: Send + Sync + 'static {
    /// Finds the interface for `address`: `named`, if it exists, or the one with an address in the smallest
    /// network that contains `address`.
    ///
    /// # Errors
    /// [`Error::NotUnicast`], [`Error::NoInterface`], [`Error::NoNetwork`].
    fn find(&self, address: IpAddr, named: Option<&str>) -> Result<String>;

    /// Service addresses on this machine, of this process or an earlier one.
    ///
    /// # Errors
    /// When the kernel does not answer.
    fn held(&self) -> Result<Vec<Holding>>;

    /// Adds `address`, or renews it; the kernel removes it after `time`, counted in whole seconds. A service
    /// address on another interface of this machine moves here. There is no conflict check: the caller must
    /// be sure that the address is free, or use [`take`].
    ///
    /// # Errors
    /// [`Error::Administrators`], [`Error::NotAllowed`], [`Error::NoInterface`], and errors of the kernel.
    ///
    /// # Panics
    /// When `time` is below [`HOLD_MIN`].
    fn hold(&self, address: IpAddr, interface: &str, time: Duration) -> Result<()>;

    /// Removes `address`, if it is a service address on this machine.
    ///
    /// # Errors
    /// [`Error::NotAllowed`], and errors of the kernel.
    fn release(&self, address: IpAddr) -> Result<()>;

    /// Announces once that `address` is here. For IPv4 both forms of gratuitous ARP (RFC 5227, section 3:
    /// some machines accept only requests, some only replies); for IPv6 an unsolicited neighbour
    /// advertisement with the override flag (RFC 4861, section 7.2.6). There is no acknowledgement: see
    /// [`announce_with_gaps`]. No effect on an interface without neighbours (loopback).
    ///
    /// # Errors
    /// [`Error::NotEthernet`], [`Error::NoInterface`], and an error if the link is down.
    fn announce(&self, address: IpAddr, interface: &str) -> Result<()>;

    /// Solicits the neighbours once for the holder of `address`, after removing their earlier answers. See
    /// [`owner_elsewhere`].
    ///
    /// # Errors
    /// [`Error::NotAllowed`], [`Error::NoLinkLocal`], [`Error::NoInterface`], and errors of the kernel.
    fn solicit(&self, address: IpAddr, interface: &str) -> Result<()>;

    /// MAC address of the machine that answered since the last [`Interfaces::solicit`].
    ///
    /// # Errors
    /// [`Error::NoInterface`], and when the kernel does not answer.
    fn answered(&self, address: IpAddr, interface: &str) -> Result<Option<Mac>>;

    /// Tickle: sends to a client, at `to`, an ACK of a connection that it may have to `from`, an address that
    /// moved to this machine. A client that still uses the old connection is reset and reconnects at once; a
    /// client that is connected to this machine is not affected. The caller chooses `sequence`, different
    /// each time: a client does not answer a number that it expects.
    ///
    /// # Errors
    /// [`Error::NotAllowed`], and errors of the kernel.
    fn tickle(&self, from: SocketAddr, to: SocketAddr, sequence: u32) -> Result<()>;

    /// Whether `address` is a service address on this machine now.
    ///
    /// # Errors
    /// As [`Interfaces::held`].
    fn holds(&self, address: IpAddr) -> Result<bool> {
        Ok(self.held()?.iter().any(|holding| holding.address == address))
    }
}

/// Service address on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// Address.
    pub address: IpAddr,
    /// Interface of the address.
    pub interface: String,
    /// Time until the kernel removes the address, in whole seconds; the removal may be [`EXPIRY_LATE_MAX`]
    /// late.
    pub left: Duration,
}

/// MAC address of a network card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Refuses addresses that no interface can hold for clients: broadcast, unspecified, or link-local (fe80::),
/// which is ambiguous between links.
fn check_unicast(address: IpAddr) -> Result<()> {
    let good = match address {
        IpAddr::V4(v4) => !v4.is_unspecified() && !v4.is_multicast() && !v4.is_broadcast(),
        IpAddr::V6(v6) => !v6.is_unspecified() && !v6.is_multicast() && !v6.is_unicast_link_local(),
    };
    if good { Ok(()) } else { Err(Error::NotUnicast(address)) }
}

/// `time` in whole seconds, the kernel's unit.
fn whole_seconds(time: Duration) -> u32 {
    assert!(time >= HOLD_MIN, "an address cannot be held for {time:?}");
    // The largest number means for ever.
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX).min(u32::MAX - 1)
}
