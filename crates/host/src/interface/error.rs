//! Errors of service addresses, with their remedies.

use std::io;
use std::net::IpAddr;

use super::Mac;

/// A result with an [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// One line for the administrator.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The process may not change addresses, or may not send frames.
    #[error(
        "this process may not change the machine's addresses: run it as root, give it the capabilities CAP_NET_ADMIN \
         and CAP_NET_RAW, or leave service_addresses out"
    )]
    NotAllowed,
    /// Not an address that one machine has.
    #[error(
        "{0} cannot be a service address: it must be one machine's, on any link (not multicast, broadcast, 0.0.0.0, ::, \
         or fe80::)"
    )]
    NotUnicast(IpAddr),
    /// The configuration names an interface that is not there.
    #[error("no interface {0}: `ip link` shows those that this machine has")]
    NoInterface(String),
    /// None of the machine's networks contains the address.
    #[error(
        "no interface of this machine has a network with {0} in it: give one an address of that network, or \
         leave {0} out of service_addresses"
    )]
    NoNetwork(IpAddr),
    /// Another machine answers for it.
    #[error(
        "{address} is in use on {interface} by the machine with MAC address {mac}: take it off that machine, or out of \
         service_addresses"
    )]
    InUse {
        /// The address.
        address: IpAddr,
        /// The interface that heard the answer.
        interface: String,
        /// Whose answer it was.
        mac: Mac,
    },
    /// It is on this machine, but not by us: it must not get a lifetime.
    #[error(
        "{address} is already on {interface}, and Heorot has not put it there: remove it (`ip address del {address} dev \
         {interface}`), or take it out of service_addresses"
    )]
    Administrators {
        /// The address.
        address: IpAddr,
        /// Where it is.
        interface: String,
    },
    /// Neighbours are told in Ethernet frames.
    #[error(
        "{0} is not Ethernet: a move of service addresses cannot be announced there, name another interface"
    )]
    NotEthernet(String),
    /// Without one, IPv6 does not ask its neighbours (RFC 4861, section 7.2.2).
    #[error(
        "{0} has no link-local IPv6 address that is ready (`ip -6 address show {0}`): wait for it, or switch IPv6 on"
    )]
    NoLinkLocal(String),
    /// All else.
    #[error("{doing}: {error}")]
    Refused {
        /// The operation that failed, and its object.
        doing: String,
        /// The kernel's answer.
        error: io::Error,
    },
}

impl Error {
    /// For `map_err`: the operation that the kernel refused.
    pub(super) fn refused(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        move |error| match error.kind() {
            io::ErrorKind::PermissionDenied if error.raw_os_error() == Some(EPERM) => Error::NotAllowed,
            _ => Error::Refused { doing: doing.into(), error },
        }
    }
}

/// Not EACCES: the kernel answers that when IPv6 is switched off on an interface.
const EPERM: i32 = rustix::io::Errno::PERM.raw_os_error();
