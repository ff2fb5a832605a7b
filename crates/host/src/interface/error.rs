//! Errors of service addresses, with their remedies.

use std::io;
use std::net::IpAddr;

use super::Mac;

/// Result with an [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Error of a service address: one line for the operator.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No permission to change addresses or to send frames.
    #[error(
        "this process may not change the machine's addresses: run it as root, give it the capabilities CAP_NET_ADMIN \
         and CAP_NET_RAW, or leave service_addresses out"
    )]
    NotAllowed,
    /// Not a unicast address of one machine.
    #[error(
        "{0} cannot be a service address: it must be one machine's, on any link (not multicast, broadcast, 0.0.0.0, ::, \
         or fe80::)"
    )]
    NotUnicast(IpAddr),
    /// The configured interface does not exist.
    #[error("no interface {0}: `ip link` shows those that this machine has")]
    NoInterface(String),
    /// No network of this machine contains the address.
    #[error(
        "no interface of this machine has a network with {0} in it: give one an address of that network, or \
         leave {0} out of service_addresses"
    )]
    NoNetwork(IpAddr),
    /// Address conflict: another machine answers for the address.
    #[error(
        "{address} is in use on {interface} by the machine with MAC address {mac}: take it off that machine, or out of \
         service_addresses"
    )]
    InUse {
        /// Address in conflict.
        address: IpAddr,
        /// Interface of the answer.
        interface: String,
        /// MAC address of the other machine.
        mac: Mac,
    },
    /// The address is on this machine without Heorot's mark: it must not get a lifetime.
    #[error(
        "{address} is already on {interface}, and Heorot has not put it there: remove it (`ip address del {address} dev \
         {interface}`), or take it out of service_addresses"
    )]
    Administrators {
        /// Existing address.
        address: IpAddr,
        /// Interface of the address.
        interface: String,
    },
    /// Not an Ethernet interface: announcements are Ethernet frames.
    #[error(
        "{0} is not Ethernet: a move of service addresses cannot be announced there, name another interface"
    )]
    NotEthernet(String),
    /// No link-local address: IPv6 needs one to solicit its neighbours (RFC 4861, section 7.2.2).
    #[error(
        "{0} has no link-local IPv6 address that is ready (`ip -6 address show {0}`): wait for it, or switch IPv6 on"
    )]
    NoLinkLocal(String),
    /// Any other error.
    #[error("{doing}: {error}")]
    Refused {
        /// Operation that failed, and its object.
        doing: String,
        /// Error of the kernel.
        error: io::Error,
    },
}

impl Error {
    /// For `map_err`: adds the operation to the kernel's error.
    pub(super) fn refused(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        move |error| match error.kind() {
            io::ErrorKind::PermissionDenied if error.raw_os_error() == Some(EPERM) => Error::NotAllowed,
            _ => Error::Refused { doing: doing.into(), error },
        }
    }
}

/// Not EACCES: the kernel returns that when IPv6 is disabled on an interface.
const EPERM: i32 = rustix::io::Errno::PERM.raw_os_error();
