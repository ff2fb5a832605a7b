//! RPC server: listens, and turns each stream into a [`Connection`].

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use host::{BufferPool, Repeated};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::connection::Surroundings;
use crate::stream::{StreamListener, StreamNetwork};
use crate::tcp::{TcpNetwork, adopted};
use crate::{Connection, Limits, Metrics, Programs};

/// After an accept failed for want of file descriptors there is nothing to do but wait for some to be closed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Connections that a server has accepted.
#[derive(Clone)]
pub struct Connections(Arc<Mutex<Accepted>>);

#[derive(Default)]
struct Accepted {
    all: Vec<Weak<Connection>>,
    /// True if the server is stopped: a connection that was just being accepted is closed, too.
    is_stopped: bool,
}

impl Connections {
    /// Addresses of the open connections: (local, peer).
    #[must_use]
    pub fn ends(&self) -> Vec<(SocketAddr, SocketAddr)> {
        let open = |connection: Arc<Connection>| {
            connection.is_open().then(|| (connection.local(), connection.peer()))
        };
        self.0.lock().all.iter().filter_map(Weak::upgrade).filter_map(open).collect()
    }

    /// Closes with RST the connections to a local address that has moved to another machine
    /// (`Connection::abandon`).
    pub fn abandon(&self, address: IpAddr) {
        let accepted = self.0.lock();
        let open = accepted.all.iter().filter_map(Weak::upgrade);
        open.filter(|connection| connection.local().ip() == address)
            .for_each(|connection| connection.abandon());
    }
}

/// Listening server. Drop and [`Server::stop`] end accepting and close all connections.
pub struct Server {
    address: SocketAddr,
    accepting: JoinHandle<()>,
    connections: Arc<Mutex<Accepted>>,
}

impl Server {
    /// Listens on `address` and serves `programs`.
    ///
    /// # Errors
    /// Error of bind or listen: address in use, not local, or not permitted.
    pub async fn start(
        address: SocketAddr,
        programs: Programs,
        limits: Limits,
        metrics: Arc<Metrics>,
    ) -> std::io::Result<Self> {
        Self::start_on(&TcpNetwork, address, programs, limits, metrics).await
    }

    /// The same on another network than TCP.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub async fn start_on(
        network: &dyn StreamNetwork,
        address: SocketAddr,
        programs: Programs,
        limits: Limits,
        metrics: Arc<Metrics>,
    ) -> std::io::Result<Self> {
        Self::accepting(network.listen(address).await?, programs, limits, metrics)
    }

    /// The same with a listening socket of [`crate::listen`].
    ///
    /// # Errors
    /// When the socket cannot be used.
    pub fn start_with(
        listener: std::net::TcpListener,
        programs: Programs,
        limits: Limits,
        metrics: Arc<Metrics>,
    ) -> std::io::Result<Self> {
        Self::accepting(adopted(listener)?, programs, limits, metrics)
    }

    fn accepting(
        listener: Box<dyn StreamListener>,
        programs: Programs,
        limits: Limits,
        metrics: Arc<Metrics>,
    ) -> std::io::Result<Self> {
        let address = listener.address()?;
        let connections: Arc<Mutex<Accepted>> = Arc::default();
        let around = Surroundings::new(limits, programs, BufferPool::default(), metrics);
        let accepting = tokio::spawn(accept(listener, around, Arc::clone(&connections)));
        Ok(Self { address, accepting, connections })
    }

    /// Local address, with the port that the kernel chose for port 0.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections accepted up to now and later.
    #[must_use]
    pub fn connections(&self) -> Connections {
        Connections(Arc::clone(&self.connections))
    }

    /// Stops accepting and closes every connection.
    pub fn stop(&self) {
        self.accepting.abort();
        let mut accepted = self.connections.lock();
        accepted.is_stopped = true;
        for connection in accepted.all.drain(..).filter_map(|c| c.upgrade()) {
            connection.close();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn accept(mut listener: Box<dyn StreamListener>, around: Surroundings, all: Arc<Mutex<Accepted>>) {
    let places = Arc::new(Semaphore::new(around.limits.connections_max));
    let failures = Repeated::new();
    loop {
        let accepted = listener.accept().await;
        if places.available_permits() == 0 {
            close_the_idlest(&all);
        }
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let stream = match accepted {
            Ok(stream) => stream,
            Err(error) => {
                if let Some(count) = failures.count() {
                    tracing::warn!(%error, count, "accept failed: new clients wait");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let connection = Connection::start(stream, around.clone());
        tracing::debug!(peer = %connection.peer(), "connected");
        around.metrics.connections.inc();
        note(&all, &connection);
        let metrics = Arc::clone(&around.metrics);
        tokio::spawn(async move {
            connection.ended().await;
            metrics.connections.dec();
            drop(place);
        });
    }
}

/// Adds a connection. Closed ones are removed only when the list would grow: removal at each accept would
/// make the cost quadratic.
fn note(accepted: &Mutex<Accepted>, connection: &Arc<Connection>) {
    let mut accepted = accepted.lock();
    if accepted.is_stopped {
        connection.close();
    }
    let all = &mut accepted.all;
    if all.len() == all.capacity() {
        all.retain(|c| c.strong_count() > 0);
    }
    all.push(Arc::downgrade(connection));
}

/// Closes the connection that has been idle for longest, preferring those of unknown clients. A legitimate
/// client reconnects with its next request and finds its session unchanged.
fn close_the_idlest(accepted: &Mutex<Accepted>) {
    let accepted = accepted.lock();
    let open = accepted.all.iter().filter_map(Weak::upgrade).filter(|connection| connection.is_open());
    let idle = open.filter_map(|connection| {
        connection.idle_since().map(|since| (connection.is_known(), since, connection))
    });
    if let Some((.., connection)) = idle.min_by_key(|(is_known, since, _)| (*is_known, *since)) {
        tracing::debug!(peer = %connection.peer(), "too many connections: an idle one ends");
        connection.close();
    }
}
