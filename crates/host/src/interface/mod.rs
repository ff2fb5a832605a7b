//! Service addresses on a machine's interfaces. In: an address and the time to hold it. Out: an address on an
//! interface, and frames that tell the neighbours. The choice of the holder is made elsewhere.
//!
//! ```text
//!   holder  add for 6 s ── renew ── renew ── killed, hung, or cut off from the leader
//!   kernel  |<-- 6 s -->|<-- 6 s -->|<-- 6 s -->| removes the address: no process has to be alive for it
//!   next holder                                   asks whether anyone answers ── adds ── announces
//! ```
//!
//! **The kernel is the fence.** An address is added with a valid lifetime (IFA_CACHEINFO) and goes away by
//! itself unless it is renewed. A holder that was killed, stopped, or swapped out, cannot keep it; one that
//! no longer hears the leader just stops renewing. The kernel may be late by [`EXPIRY_LATE_MAX`]. Its timer
//! stands still while a machine is suspended: one that wakes up holds its addresses for the rest of the time.
//!
//! **An address of IPv4 goes with its holder**, if the machine has TUN devices: it is on one of the process
//! ([`device`]), which the kernel removes when that dies. The lifetime is for a server that hangs, or is cut
//! off.
//!
//! **An address is alone** (/32, or /128), whatever network it belongs to: Linux removes the other addresses
//! of a network together with the first of them, and the first must never be ours. It also makes no route. A
//! service address of IPv6 is deprecated from the start (preferred lifetime 0), so that the kernel does not
//! choose it as the source of connections that this machine makes; those that come in work as ever (RFC 4862,
//! section 5.5.4).
//!
//! **Ours are marked** (label `INTERFACE:hrt`, IFA_PROTO), so that addresses of an earlier life of this
//! server are taken over and those of the administrator are never touched.
//!
//! Linux only knows how to refuse an address after it has been added (duplicate address detection of RFC
//! 4862), and for IPv4 not at all. We ask before: the kernel's own neighbour discovery looks for the address,
//! and whoever answers has it. RFC 5227 has a probe for this, with an empty sender, which spares neighbours'
//! caches an address that may not be ours: the kernel asks with this machine's own address, which they may
//! well know.

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

/// How much longer than asked for an address may stay. Linux looks at lifetimes at whole seconds if those are
/// at most a quarter away, and not more than once a second (`check_lifetime` in net/ipv4/devinet.c,
/// `addrconf_verify_rtnl` in net/ipv6/addrconf.c); with several addresses 0.9 s were measured. The next
/// holder of an address waits for that too.
pub const EXPIRY_LATE_MAX: Duration = Duration::from_millis(1250);

/// The shortest time to hold an address for: the kernel counts in seconds.
pub const HOLD_MIN: Duration = Duration::from_secs(1);

/// The addresses of one machine.
///
/// Calls take 10 to 70 microseconds and may be made from async code. The kernel changes addresses one at a
/// time: while somebody else does (or makes an interface) a call waits for them, which is milliseconds.
pub trait Interfaces: Send + Sync + 'static {
    /// The interface to hold `address` on: `named`, if it exists, or the one with an address in the smallest
    /// network that `address` belongs to.
    ///
    /// # Errors
    /// [`Error::NotUnicast`], [`Error::NoInterface`], [`Error::NoNetwork`].
    fn find(&self, address: IpAddr, named: Option<&str>) -> Result<String>;

    /// The service addresses on this machine, of this life of the server or of an earlier one.
    ///
    /// # Errors
    /// If the kernel does not tell.
    fn held(&self) -> Result<Vec<Holding>>;

    /// Adds `address`, or renews it: it goes away by itself after `time`, of which whole seconds count. Where
    /// the address already is a service address on another interface of this machine, it moves. Nobody else
    /// is asked: that the caller may have it must be certain, or [`take`] asks.
    ///
    /// # Errors
    /// [`Error::Administrators`], [`Error::NotAllowed`], [`Error::NoInterface`], and the kernel's.
    ///
    /// # Panics
    /// When `time` is below [`HOLD_MIN`].
    fn hold(&self, address: IpAddr, interface: &str, time: Duration) -> Result<()>;

    /// Removes `address`, if it is there and a service address.
    ///
    /// # Errors
    /// [`Error::NotAllowed`], and the kernel's.
    fn release(&self, address: IpAddr) -> Result<()>;

    /// Tells the neighbours, once, that `address` is here now. For IPv4 both forms of gratuitous ARP (RFC
    /// 5227, section 3: some machines listen only to requests, some only to replies); for IPv6 an unsolicited
    /// neighbour advertisement with the override flag (RFC 4861, section 7.2.6). Nothing tells whether
    /// anybody heard: see
    /// [`announce_with_gaps`]. On an interface without neighbours (loopback) there is nothing to do.
    ///
    /// # Errors
    /// [`Error::NotEthernet`], [`Error::NoInterface`], and a link that is down.
    fn announce(&self, address: IpAddr, interface: &str) -> Result<()>;

    /// Asks the neighbours, once, for the holder of `address`, and forgets their earlier answers. See
    /// [`owner_elsewhere`].
    ///
    /// # Errors
    /// [`Error::NotAllowed`], [`Error::NoLinkLocal`], [`Error::NoInterface`], and the kernel's.
    fn solicit(&self, address: IpAddr, interface: &str) -> Result<()>;

    /// The machine that answered since the last [`Interfaces::solicit`].
    ///
    /// # Errors
    /// [`Error::NoInterface`], and if the kernel does not tell.
    fn answered(&self, address: IpAddr, interface: &str) -> Result<Option<Mac>>;

    /// Sends to a client, at `to`, an ACK of a connection that it may have to `from`, which this machine
    /// holds now and another one held before. A client that still counts on that connection is reset, and
    /// connects again at once; for one that is connected to this machine nothing changes. The number is the
    /// caller's, and should be another one each time: one that happens to be expected is not answered.
    ///
    /// # Errors
    /// [`Error::NotAllowed`], and the kernel's.
    fn tickle(&self, from: SocketAddr, to: SocketAddr, sequence: u32) -> Result<()>;

    /// Whether `address` is a service address on this machine now.
    ///
    /// # Errors
    /// As [`Interfaces::held`].
    fn holds(&self, address: IpAddr) -> Result<bool> {
        Ok(self.held()?.iter().any(|holding| holding.address == address))
    }
}

/// One service address on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// The address.
    pub address: IpAddr,
    /// Where it is.
    pub interface: String,
    /// Until the kernel removes it, in whole seconds; it may take [`EXPIRY_LATE_MAX`] longer.
    pub left: Duration,
}

/// The address of a network card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Refuses what no interface can hold for clients: all of the network, nobody, or (fe80::) an address that
/// means something else on each link.
fn check_unicast(address: IpAddr) -> Result<()> {
    let good = match address {
        IpAddr::V4(v4) => !v4.is_unspecified() && !v4.is_multicast() && !v4.is_broadcast(),
        IpAddr::V6(v6) => !v6.is_unspecified() && !v6.is_multicast() && !v6.is_unicast_link_local(),
    };
    if good { Ok(()) } else { Err(Error::NotUnicast(address)) }
}

/// `time` in the kernel's unit.
fn whole_seconds(time: Duration) -> u32 {
    assert!(time >= HOLD_MIN, "an address cannot be held for {time:?}");
    // The largest number means for ever.
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX).min(u32::MAX - 1)
}
