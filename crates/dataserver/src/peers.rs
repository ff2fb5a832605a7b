//! The other data servers of the cluster, as far as this one calls them: to copy from their objects, and as
//! members of the same chains.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use host::Entropy;
use nfs::{Peer, PeerKey, StreamNetwork};
use parking_lot::Mutex;
use wire::data;

/// Connections remembered; when there are more, all are forgotten and end. Four for each of 1024 data
/// servers.
const PEERS_MAX: usize = 4096;

/// Use of a connection. A called server reads the calls of one connection in turn, and stops when those under
/// way hold much memory. So calls that wait for a third server have other connections than calls that such
/// calls wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Use {
    /// Reads for copies, and the refilling of members of chains.
    Fetch,
    /// Changes that go to the head of their chain.
    Relay,
    /// Changes that go from one member of a chain to the next.
    Forward,
    /// Damaged blocks that the head of their chain is asked to mend: changes wait for them.
    Mend,
}

/// The other data servers.
pub(crate) struct Peers {
    key: PeerKey,
    entropy: Arc<dyn Entropy>,
    network: Arc<dyn StreamNetwork>,
    open: Mutex<BTreeMap<(SocketAddr, Use), Arc<Peer>>>,
}

impl Peers {
    pub(crate) fn new(key: PeerKey, entropy: Arc<dyn Entropy>, network: Arc<dyn StreamNetwork>) -> Arc<Self> {
        Arc::new(Self { key, entropy, network, open: Mutex::default() })
    }

    /// The data server at `address`. Nothing is sent yet.
    pub(crate) fn get(&self, address: SocketAddr, purpose: Use) -> Arc<Peer> {
        let mut open = self.open.lock();
        if open.len() >= PEERS_MAX && !open.contains_key(&(address, purpose)) {
            open.clear();
        }
        let program = (data::PROGRAM, data::VERSION);
        let new = || {
            let (network, entropy) = (Arc::clone(&self.network), Arc::clone(&self.entropy));
            Arc::new(Peer::new_on(network, address, program, self.key.clone(), entropy))
        };
        Arc::clone(open.entry((address, purpose)).or_insert_with(new))
    }
}
