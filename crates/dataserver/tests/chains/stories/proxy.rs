//! Connections to a member that can be cut, in the middle of a call or an answer.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// Listens at an address of its own, and passes all on to the member.
pub struct Proxy {
    address: SocketAddr,
    /// Where the member listens now.
    member: Arc<Mutex<SocketAddr>>,
    connections: Arc<Mutex<JoinSet<()>>>,
    listens: JoinHandle<()>,
}

impl Proxy {
    pub async fn of(member: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let (member, connections) = (Arc::new(Mutex::new(member)), Arc::new(Mutex::new(JoinSet::new())));
        let (its_member, its_connections) = (Arc::clone(&member), Arc::clone(&connections));
        let listens = tokio::spawn(async move {
            while let Ok((mut from, _)) = listener.accept().await {
                let member = *its_member.lock();
                let mut connections = its_connections.lock();
                while connections.try_join_next().is_some() {}
                connections.spawn(async move {
                    // A member that is down: the connection ends.
                    if let Ok(mut to) = TcpStream::connect(member).await {
                        let _ = copy_bidirectional(&mut from, &mut to).await;
                    }
                });
            }
        });
        Self { address, member, connections, listens }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The member listens there now.
    pub fn lead_to(&self, member: SocketAddr) {
        *self.member.lock() = member;
        self.cut();
    }

    /// Ends all connections.
    pub fn cut(&self) {
        self.connections.lock().abort_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listens.abort();
        self.cut();
    }
}
