//! Listeners of what boots machines: they follow the settings and the service addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use metaserver::Metaserver;
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketType, bind, listen, socket, sockopt};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use crate::boot::{http, tftp};

/// Interval at which settings and addresses are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Connections that wait to be accepted: the nodes of a rack that is switched on.
const BACKLOG: i32 = 1024;

/// What is answered at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Http,
    Tftp,
}

type Place = (Kind, SocketAddr);

/// The listeners of a metaserver; drop ends them.
pub(crate) struct BootServers {
    follows: JoinHandle<()>,
}

impl Drop for BootServers {
    fn drop(&mut self) {
        self.follows.abort();
    }
}

/// One listener; drop ends it.
struct Listener(JoinHandle<io::Error>);

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl BootServers {
    /// Begins to follow the settings. `own`: the address of the metaserver itself.
    pub(crate) fn start(metaserver: &Arc<Metaserver>, own: IpAddr) -> Self {
        Self { follows: tokio::spawn(follow(Arc::clone(metaserver), own)) }
    }
}

async fn follow(metaserver: Arc<Metaserver>, own: IpAddr) {
    let mut listeners: BTreeMap<Place, Listener> = BTreeMap::new();
    let mut failed: BTreeSet<Place> = BTreeSet::new();
    let mut often = tokio::time::interval(LOOK_EVERY);
    often.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        often.tick().await;
        let cluster = metaserver.cluster();
        let settings = cluster.settings();
        let ports = [(Kind::Http, settings.boot_http_port), (Kind::Tftp, settings.boot_tftp_port)];
        let wanted = places(own, &cluster.map().head.service_addresses, &ports);
        listeners.retain(|place, listener| wanted.contains(place) && !listener.0.is_finished());
        failed.retain(|place| wanted.contains(place));
        for place in wanted {
            if listeners.contains_key(&place) {
                continue;
            }
            match start(&metaserver, place, own.is_unspecified()) {
                Ok(listener) => {
                    tracing::info!(kind = ?place.0, address = %place.1, "listening for machines that boot");
                    failed.remove(&place);
                    listeners.insert(place, listener);
                }
                Err(error) if failed.insert(place) => {
                    tracing::warn!(kind = ?place.0, address = %place.1, %error, "cannot listen for machines that boot, retrying");
                }
                Err(_) => {}
            }
        }
    }
}

/// Where to listen. All addresses of the machine include those of the service that it holds; but answers of UDP come from
/// the address that was asked only if its socket is bound to it.
fn places(own: IpAddr, service: &[IpAddr], ports: &[(Kind, u16)]) -> BTreeSet<Place> {
    let mut places = BTreeSet::new();
    for (kind, port) in ports.iter().filter(|(_, port)| *port > 0) {
        places.insert((*kind, SocketAddr::new(own, *port)));
        if !own.is_unspecified() || *kind == Kind::Tftp {
            places.extend(service.iter().map(|address| (*kind, SocketAddr::new(*address, *port))));
        }
    }
    places
}

fn start(metaserver: &Arc<Metaserver>, (kind, address): Place, shares: bool) -> io::Result<Listener> {
    let metaserver = Arc::clone(metaserver);
    Ok(Listener(match kind {
        Kind::Http => {
            let fd = bound(address, SocketType::STREAM, true)?;
            listen(&fd, BACKLOG)?;
            let listener = TcpListener::from(fd);
            listener.set_nonblocking(true)?;
            let listener = tokio::net::TcpListener::from_std(listener)?;
            tokio::spawn(http::serve(listener, metaserver))
        }
        Kind::Tftp => {
            // Of UDP, reuse lets the socket of one address stand beside that of all.
            let socket = UdpSocket::from(bound(address, SocketType::DGRAM, shares)?);
            tokio::spawn(tftp::serve(socket, metaserver))
        }
    }))
}

/// A socket at an address that this machine may not have yet.
fn bound(address: SocketAddr, kind: SocketType, reuses: bool) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let fd = socket(family, kind, None)?;
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
    sockopt::set_socket_reuseaddr(&fd, reuses)?;
    match address.is_ipv4() {
        true => sockopt::set_ip_freebind(&fd, true)?,
        false => {
            sockopt::set_ipv6_freebind(&fd, true)?;
            sockopt::set_ipv6_v6only(&fd, !address.ip().is_unspecified())?;
        }
    }
    bind(&fd, &address)?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_and_service_addresses_are_listened_at_once_there_are_ports() {
        let service = [IpAddr::from([10, 0, 0, 100]), IpAddr::from([10, 0, 0, 101])];
        let at = |own: [u8; 4], http, tftp| {
            let all = places(own.into(), &service, &[(Kind::Http, http), (Kind::Tftp, tftp)]);
            all.into_iter().map(|(kind, address)| format!("{kind:?} {address}")).collect::<Vec<_>>()
        };
        assert!(at([10, 0, 0, 1], 0, 0).is_empty());
        assert_eq!(
            at([10, 0, 0, 1], 80, 0),
            ["Http 10.0.0.1:80", "Http 10.0.0.100:80", "Http 10.0.0.101:80"]
        );
        assert_eq!(
            at([0; 4], 80, 69),
            ["Http 0.0.0.0:80", "Tftp 0.0.0.0:69", "Tftp 10.0.0.100:69", "Tftp 10.0.0.101:69"]
        );
    }

    #[test]
    fn an_address_that_comes_later_can_be_listened_at_now() {
        let address = "10.77.255.254:0".parse().unwrap();
        drop(bound(address, SocketType::STREAM, true).unwrap());
        drop(bound(address, SocketType::DGRAM, false).unwrap());
        assert!(UdpSocket::bind(address).is_err(), "no interface has it");
    }
}
