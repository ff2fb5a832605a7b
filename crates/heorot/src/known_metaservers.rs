//! The metaservers that a data server knows: those of its configuration, and those that the cluster map names.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use nfs::{Peer, PeerKey};
use tokio::sync::Notify;

use host::SystemEntropy;

/// Metaservers of one cluster: bounds what a data server believes.
const METASERVERS_MAX: usize = 1024;

/// All of them, by address.
pub(crate) struct KnownMetaservers {
    key: PeerKey,
    configured: Vec<SocketAddr>,
    known: RwLock<Known>,
    /// Told when there are others.
    pub changed: Notify,
}

#[derive(Default)]
struct Known {
    map_version: u64,
    peers: BTreeMap<SocketAddr, Arc<Peer>>,
}

impl KnownMetaservers {
    /// Those of the configuration.
    pub(crate) fn new(configured: Vec<SocketAddr>, key: PeerKey) -> Self {
        let this = Self { key, configured, known: RwLock::default(), changed: Notify::new() };
        this.replace(0, &[]);
        this
    }

    /// The connections to them.
    pub(crate) fn peers(&self) -> BTreeMap<SocketAddr, Arc<Peer>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).peers.clone()
    }

    /// The version of the map that they are from.
    pub(crate) fn map_version(&self) -> u64 {
        self.known.read().unwrap_or_else(PoisonError::into_inner).map_version
    }

    /// A metaserver says that these are all, as of that version of the map.
    pub(crate) fn learn(&self, version: u64, addresses: &[Bytes]) {
        if addresses.is_empty() || addresses.len() > METASERVERS_MAX || version <= self.map_version() {
            return;
        }
        let parse = |bytes: &Bytes| {
            let address: SocketAddr = std::str::from_utf8(bytes).ok()?.parse().ok()?;
            // One that listens everywhere and says no more cannot be found by that.
            (!address.ip().is_unspecified()).then_some(address)
        };
        let addresses: Vec<SocketAddr> = addresses.iter().filter_map(parse).collect();
        self.replace(version, &addresses);
        self.changed.notify_one();
    }

    fn replace(&self, map_version: u64, addresses: &[SocketAddr]) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let peer = |address: SocketAddr| {
            let program = (wire::cluster::PROGRAM, wire::cluster::VERSION);
            Arc::new(Peer::new(address, program, self.key.clone(), Arc::new(SystemEntropy)))
        };
        let all = self.configured.iter().chain(addresses);
        let peers = all.map(|a| (*a, known.peers.get(a).cloned().unwrap_or_else(|| peer(*a)))).collect();
        *known = Known { map_version, peers };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_adds_to_the_configuration_and_an_older_one_changes_nothing() {
        let key = PeerKey { cluster: [1; 16], secret: [2; 32] };
        let known = KnownMetaservers::new(vec!["10.0.0.1:2049".parse().unwrap()], key);
        let all = || known.peers().keys().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let bytes = |texts: &[&str]| texts.iter().map(|t| Bytes::from((*t).to_owned())).collect::<Vec<_>>();
        let first = known.peers();
        known.learn(4, &bytes(&["10.0.0.1:2049", "10.0.0.2:2049", "nonsense", "0.0.0.0:2049"]));
        assert_eq!((all().as_str(), known.map_version()), ("10.0.0.1:2049 10.0.0.2:2049", 4));
        assert!(Arc::ptr_eq(first.values().next().unwrap(), &known.peers().into_values().next().unwrap()));
        known.learn(3, &bytes(&["10.0.0.9:2049"]));
        known.learn(5, &[]);
        assert_eq!(known.map_version(), 4);
        known.learn(5, &bytes(&["10.0.0.3:2049"]));
        assert_eq!(all(), "10.0.0.1:2049 10.0.0.3:2049");
    }
}
