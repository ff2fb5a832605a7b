//! Listens, and turns each stream into a [`Connection`].

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use host::{BufferPool, Locked};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::connection::Surroundings;
use crate::limits::Budgets;
use crate::{Connection, Limits, Metrics, Programs};

/// Connections that the kernel keeps until they are accepted: clients of a whole cluster that come back at
/// once. One for which there is no room is tried again by its client after 1 s, then 3 s and 7 s. The kernel
/// takes no more than net.core.somaxconn, 4096.
const BACKLOG: u32 = 4096;
/// After an accept failed for want of file descriptors there is nothing to do but wait for some to be closed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The connections that a server has accepted.
#[derive(Clone)]
pub struct Connections(Arc<Mutex<Vec<Weak<Connection>>>>);

impl Connections {
    /// Both ends of each that is open: first ours.
    #[must_use]
    pub fn ends(&self) -> Vec<(SocketAddr, SocketAddr)> {
        let open = |connection: Arc<Connection>| {
            connection.is_open().then(|| (connection.local(), connection.peer()))
        };
        self.0.locked().iter().filter_map(Weak::upgrade).filter_map(open).collect()
    }

    /// Ends those to an address that this machine has no longer, without a word, since there is nowhere to
    /// say it from.
    pub fn abandon(&self, address: IpAddr) {
        let all = self.0.locked();
        let open = all.iter().filter_map(Weak::upgrade);
        open.filter(|connection| connection.local().ip() == address)
            .for_each(|connection| connection.abandon());
    }
}

/// A listening server. Dropping it stops accepting; [`Server::stop`] also ends what it accepted.
pub struct Server {
    address: SocketAddr,
    accepting: JoinHandle<()>,
    connections: Arc<Mutex<Vec<Weak<Connection>>>>,
}

impl Server {
    /// Listens on `address` and serves `programs`.
    ///
    /// # Errors
    /// When the address cannot be had: in use, not ours, or not permitted.
    pub async fn start(
        address: SocketAddr,
        programs: Programs,
        limits: Limits,
        metrics: Arc<Metrics>,
    ) -> std::io::Result<Self> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // A port is free again as soon as its server has ended, also where connections of it are still being
        // closed.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let listener = socket.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        let connections: Arc<Mutex<Vec<Weak<Connection>>>> = Arc::default();
        let around = Surroundings {
            budgets: Budgets::new(&limits),
            limits,
            programs,
            pool: BufferPool::default(),
            metrics,
        };
        let accepting = tokio::spawn(accept(listener, around, Arc::clone(&connections)));
        Ok(Self { address, accepting, connections })
    }

    /// Where it listens, with the port that it got if port 0 was asked for.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has accepted, also what it will accept.
    #[must_use]
    pub fn connections(&self) -> Connections {
        Connections(Arc::clone(&self.connections))
    }

    /// Stops accepting and closes every connection.
    pub fn stop(&self) {
        self.accepting.abort();
        for connection in self.connections.locked().drain(..).filter_map(|c| c.upgrade()) {
            connection.close();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn accept(listener: TcpListener, around: Surroundings, all: Arc<Mutex<Vec<Weak<Connection>>>>) {
    let places = Arc::new(Semaphore::new(around.limits.connections_max));
    loop {
        let accepted = listener.accept().await;
        if places.available_permits() == 0 {
            close_the_idlest(&all);
        }
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        keep_alive(&stream);
        go_with_process(&stream);
        let Ok(connection) = Connection::start(stream, around.clone()) else { continue };
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

/// Notes a connection. Those that are gone are taken out when the list would grow: not at each, which would
/// make as many connections at once cost their square.
fn note(all: &Mutex<Vec<Weak<Connection>>>, connection: &Arc<Connection>) {
    let mut all = all.locked();
    if all.len() == all.capacity() {
        all.retain(|c| c.strong_count() > 0);
    }
    all.push(Arc::downgrade(connection));
}

/// Ends the connection that has been idle for longest, of those that are of strangers if there are any. Its
/// client, if it is a good one, connects again when it has something to ask, and finds its session as it was.
fn close_the_idlest(all: &Mutex<Vec<Weak<Connection>>>) {
    let all = all.locked();
    let open = all.iter().filter_map(Weak::upgrade).filter(|connection| connection.is_open());
    let idle = open.filter_map(|connection| {
        connection.idle_since().map(|since| (connection.is_known(), since, connection))
    });
    if let Some((.., connection)) = idle.min_by_key(|(is_known, since, _)| (*is_known, *since)) {
        tracing::debug!(peer = %connection.peer(), "too many connections: an idle one ends");
        connection.close();
    }
}

/// If this process is killed the kernel forgets the connection at once. Otherwise, with its address gone, the
/// kernel keeps it for minutes to send its end (FIN-WAIT-1). When that address comes back here, what the
/// client sends about its newer connection to another machine meets this old one, and is answered with
/// nothing that would tell the client: it would wait until its call is too late, a minute and more.
fn go_with_process(stream: &TcpStream) {
    if let Err(error) = rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO)) {
        tracing::debug!(%error, "a connection may outlive this process");
    }
}

/// A client whose machine vanished is noticed: its connection would otherwise hold a place for ever.
fn keep_alive(stream: &TcpStream) {
    if let Err(error) = rustix::net::sockopt::set_socket_keepalive(stream, true) {
        tracing::debug!(%error, "keep-alive not set");
    }
}
