//! The metaservers that a data server knows: those of its configuration, and those that the cluster map
//! names.
//!
//! The latter are written down, a line for each, so that a data server finds its cluster at its next start
//! when none of its configuration's is there any more. The map's version is not: versions count within one
//! incarnation of the metaservers, and a map that was restored is followed whatever its version.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use nfs::{CallFailure, Peer, PeerKey};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use wire::cluster::{Procedure, cluster_status};

use host::SystemEntropy;

/// Upper limit of the metaservers of one cluster that a data server remembers.
const METASERVERS_MAX: usize = 1024;

/// A metaserver asks its leader, and gives up on it before this.
const STATUS_TIME_MAX: Duration = Duration::from_secs(5);

/// All of them, by address.
pub(crate) struct KnownMetaservers {
    key: PeerKey,
    configured: Vec<SocketAddr>,
    known: RwLock<Known>,
    file: PathBuf,
    /// Content of the file.
    written: Mutex<Vec<SocketAddr>>,
    /// Told when there are others.
    pub changed: Notify,
}

#[derive(Default)]
struct Known {
    incarnation: u64,
    map_version: u64,
    peers: BTreeMap<SocketAddr, Arc<Peer>>,
}

impl KnownMetaservers {
    /// Those of the configuration, and those that were written down in `file`.
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

    /// The connections to them.
    pub(crate) fn peers(&self) -> BTreeMap<SocketAddr, Arc<Peer>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).peers.clone()
    }

    /// The version of this incarnation's map that they are from; 0: they are not.
    pub(crate) fn map_version(&self, incarnation: u64) -> u64 {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if known.incarnation == incarnation { known.map_version } else { 0 }
    }

    /// A metaserver of this incarnation, which is obeyed, says that these are all, as of that version of the
    /// map.
    pub(crate) fn learn(&self, incarnation: u64, version: u64, addresses: &[Bytes]) {
        if addresses.is_empty()
            || addresses.len() > METASERVERS_MAX
            || version <= self.map_version(incarnation)
        {
            return;
        }
        let parse = |bytes: &Bytes| {
            let address: SocketAddr = std::str::from_utf8(bytes).ok()?.parse().ok()?;
            // One that listens everywhere and says no more cannot be found by that.
            (!address.ip().is_unspecified()).then_some(address)
        };
        let addresses: Vec<SocketAddr> = addresses.iter().filter_map(parse).collect();
        self.replace((incarnation, version), &addresses);
        self.changed.notify_one();
    }

    /// The status of the cluster, from the first metaserver that answers; all are asked side by side. None:
    /// none does.
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

    /// Writes down those that are known now, unless they are. Waits for the disk.
    pub(crate) fn write_down(&self) {
        let now: Vec<SocketAddr> = self.peers().into_keys().collect();
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let told = self.known.read().unwrap_or_else(PoisonError::into_inner).map_version > 0;
        // Else it is equal to the file and the configuration: no news.
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
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
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

/// There is never half a file of this name.
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
        // Of a group that was restored, and has come less far.
        assert_eq!(known.map_version(2), 0);
        known.learn(2, 1, &bytes(&["10.0.0.4:2049"]));
        assert_eq!(all(&known), "10.0.0.1:2049 10.0.0.4:2049");
    }
}
