//! Metaservers that a data server knows: those of its configuration, and those of the cluster map.
//!
//! The addresses of the map are stored, one a line, so that a data server finds its cluster at its next start
//! even if all configured addresses are obsolete. The map's version is not stored: versions count within one
//! incarnation of the group, and a restored map is followed whatever its version.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nfs::{CallFailure, Peer, PeerKey};
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use wire::cluster::{Procedure, cluster_status};

use host::SystemEntropy;

/// Maximal number of metaservers of one cluster that a data server remembers.
const METASERVERS_MAX: usize = 1024;

/// Time limit of a STATUS call; the metaserver's own call to its leader ends before.
const STATUS_TIME_MAX: Duration = Duration::from_secs(5);

/// Known metaservers, by address.
pub(crate) struct KnownMetaservers {
    key: PeerKey,
    configured: Vec<SocketAddr>,
    known: RwLock<Known>,
    file: PathBuf,
    /// Content of the file.
    written: Mutex<Vec<SocketAddr>>,
    /// Notified when the addresses change.
    pub changed: Notify,
}

#[derive(Default)]
struct Known {
    incarnation: u64,
    map_version: u64,
    peers: BTreeMap<SocketAddr, Arc<Peer>>,
}

impl KnownMetaservers {
    /// Metaservers of the configuration, and those stored in `file`.
    pub(crate) fn new(configured: Vec<SocketAddr>, key: PeerKey, file: PathBuf) -> Self {
        let remembered = read(&file).unwrap_or_else(|why| {
            tracing::warn!("{}: {why}; only the metaservers of the configuration are tried", file.display());
            vec![]
        });
        let (known, changed) = (RwLock::default(), Notify::new());
        let this = Self { key, configured, known, file, written: Mutex::new(remembered.clone()), changed };
        this.replace((0, 0), &remembered);
        this
    }

    /// Connections to the metaservers.
    pub(crate) fn peers(&self) -> BTreeMap<SocketAddr, Arc<Peer>> {
        self.known.read().peers.clone()
    }

    /// Runs a task for each known metaserver, and `follow` after each change of their addresses, until it is
    /// dropped.
    pub(crate) async fn with_each<T>(&self, task: impl Fn(Arc<Peer>) -> T, follow: impl Fn())
    where
        T: Future<Output = ()> + Send + 'static,
    {
        // Dropped with the caller, which ends the tasks.
        let mut all = JoinSet::new();
        let mut handles: BTreeMap<SocketAddr, AbortHandle> = BTreeMap::new();
        loop {
            // Before the addresses are read: a change meanwhile is not missed.
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            follow();
            let peers = self.peers();
            handles.retain(|address, handle| {
                let stays = peers.contains_key(address);
                if !stays {
                    handle.abort();
                }
                stays
            });
            for (address, peer) in peers {
                handles.entry(address).or_insert_with(|| all.spawn(task(peer)));
            }
            changed.await;
        }
    }

    /// Version of this incarnation's map that the addresses are from; 0: from none.
    pub(crate) fn map_version(&self, incarnation: u64) -> u64 {
        let known = self.known.read();
        if known.incarnation == incarnation { known.map_version } else { 0 }
    }

    /// Replaces the addresses by those of a newer map of the incarnation that this data server obeys.
    pub(crate) fn learn(&self, incarnation: u64, version: u64, addresses: &[Bytes]) {
        if addresses.is_empty()
            || addresses.len() > METASERVERS_MAX
            || version <= self.map_version(incarnation)
        {
            return;
        }
        let parse = |bytes: &Bytes| {
            let address: SocketAddr = std::str::from_utf8(bytes).ok()?.parse().ok()?;
            // A metaserver that listens on the unspecified address cannot be found by it.
            (!address.ip().is_unspecified()).then_some(address)
        };
        let addresses: Vec<SocketAddr> = addresses.iter().filter_map(parse).collect();
        self.replace((incarnation, version), &addresses);
        self.changed.notify_waiters();
    }

    /// Status of the cluster from all metaservers in parallel: the first answer that has a leader, or else
    /// any. None: no metaserver answers.
    pub(crate) async fn cluster_status(&self) -> Option<serde_json::Value> {
        let mut asked = JoinSet::new();
        for peer in self.peers().into_values() {
            asked.spawn(async move {
                let (procedure, args) = (Procedure::Status as u32, cluster_status::Args {});
                let answer: Result<cluster_status::Res, CallFailure> =
                    peer.call(procedure, &args, STATUS_TIME_MAX).await;
                serde_json::from_slice::<serde_json::Value>(&answer.ok()?.ok()?.json).ok()
            });
        }
        let mut leaderless = None;
        while let Some(answer) = asked.join_next().await {
            match answer.ok().flatten() {
                Some(status) if !status["leader"].is_null() => return Some(status),
                Some(status) => leaderless = Some(status),
                None => {}
            }
        }
        leaderless
    }

    /// Stores the addresses, if they changed. Blocks on the disk.
    pub(crate) fn write_down(&self) {
        let now: Vec<SocketAddr> = self.peers().into_keys().collect();
        let mut written = self.written.lock();
        let told = self.known.read().map_version > 0;
        // Otherwise the addresses equal the file and the configuration.
        if !told || *written == now {
            return;
        }
        match write(&self.file, &now) {
            Ok(()) => *written = now,
            Err(error) => {
                let file = self.file.display();
                tracing::warn!(%error, "{file}: cannot store the metaservers' addresses for the next start");
            }
        }
    }

    fn replace(&self, (incarnation, map_version): (u64, u64), addresses: &[SocketAddr]) {
        let mut known = self.known.write();
        let peer = |address: SocketAddr| {
            let program = (wire::cluster::PROGRAM, wire::cluster::VERSION);
            Arc::new(Peer::new(address, program, self.key.clone(), Arc::new(SystemEntropy)))
        };
        let all = self.configured.iter().chain(addresses);
        let peers = all.map(|a| (*a, known.peers.get(a).cloned().unwrap_or_else(|| peer(*a)))).collect();
        *known = Known { incarnation, map_version, peers };
    }
}

fn read(file: &Path) -> Result<Vec<SocketAddr>, String> {
    let text = match std::fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        text => text.map_err(|error| error.to_string())?,
    };
    let addresses = text.lines().take(METASERVERS_MAX);
    addresses.map(|line| line.parse().map_err(|_| format!("{line:?} is no address"))).collect()
}

/// Writes the file atomically.
fn write(file: &Path, addresses: &[SocketAddr]) -> io::Result<()> {
    let lines: String = addresses.iter().map(|address| format!("{address}\n")).collect();
    host::replace(&host::SystemFiles, file, lines.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(file: &Path) -> KnownMetaservers {
        let key = PeerKey { cluster: [1; 16], secret: [2; 32] };
        KnownMetaservers::new(vec!["10.0.0.1:2049".parse().unwrap()], key, file.to_owned())
    }

    fn all(known: &KnownMetaservers) -> String {
        known.peers().keys().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    fn bytes(texts: &[&str]) -> Vec<Bytes> {
        texts.iter().map(|text| Bytes::from((*text).to_owned())).collect()
    }

    #[test]
    fn what_the_map_said_is_known_at_the_next_start_and_a_map_that_was_restored_is_followed_then() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("server.metaservers");
        let known = started(&file);
        known.write_down();
        assert!(!file.exists(), "nothing that the configuration does not say");
        known.learn(1, 9, &bytes(&["10.0.0.2:2049", "[fd00::3]:2049"]));
        known.write_down();
        let next = started(&file);
        assert_eq!(all(&next), "10.0.0.1:2049 10.0.0.2:2049 [fd00::3]:2049");
        next.learn(1, 2, &bytes(&["10.0.0.4:2049"]));
        next.write_down();
        assert_eq!(all(&started(&file)), "10.0.0.1:2049 10.0.0.4:2049");
        std::fs::write(&file, "half a l").unwrap();
        assert_eq!(all(&started(&file)), "10.0.0.1:2049");
    }

    #[test]
    fn the_map_adds_to_the_configuration_and_an_older_one_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let known = started(&dir.path().join("server.metaservers"));
        let first = known.peers();
        known.learn(1, 4, &bytes(&["10.0.0.1:2049", "10.0.0.2:2049", "nonsense", "0.0.0.0:2049"]));
        assert_eq!((all(&known).as_str(), known.map_version(1)), ("10.0.0.1:2049 10.0.0.2:2049", 4));
        assert!(Arc::ptr_eq(first.values().next().unwrap(), &known.peers().into_values().next().unwrap()));
        known.learn(1, 3, &bytes(&["10.0.0.9:2049"]));
        known.learn(1, 5, &[]);
        assert_eq!(known.map_version(1), 4);
        known.learn(1, 5, &bytes(&["10.0.0.3:2049"]));
        assert_eq!(all(&known), "10.0.0.1:2049 10.0.0.3:2049");
        // A restored group, whose map has a lower version.
        assert_eq!(known.map_version(2), 0);
        known.learn(2, 1, &bytes(&["10.0.0.4:2049"]));
        assert_eq!(all(&known), "10.0.0.1:2049 10.0.0.4:2049");
    }
}
