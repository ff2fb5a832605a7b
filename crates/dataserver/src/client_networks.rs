//! The networks that clients come from: those that anything is exported to, as the cluster map has them. NFS
//! is served to no other address here.
//!
//! They are kept in `server.networks`, beside the server's identity, a line for each network: a data server
//! that starts while no metaserver answers admits the same clients as before.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use host::{Network, Repeated, SystemFiles, watch};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

const FILE: &str = "server.networks";
/// Wait of a new client whose address no network admits, for news of a metaserver: two heartbeats. A client
/// that mounts right after its network was exported would else be refused, and Linux then leaves all data
/// servers of the file alone for two minutes.
const NEWS_TIME_MAX: Duration = Duration::from_secs(2);

/// Calls that wait for that at one time: a cluster's clients that all mount at once, and a fraction of the
/// calls that are in work at a server. A further one is refused at once.
const WAITING_MAX: usize = 4096;

/// The networks as metaservers told them last.
pub struct ClientNetworks {
    file: PathBuf,
    told: watch::Sender<Told>,
    /// Networks in the file; `None` if it cannot be read.
    written: Mutex<Option<BTreeSet<Network>>>,
    waiting: Semaphore,
    /// Calls that were refused.
    refused: Repeated,
}

#[derive(Clone, Default)]
struct Told {
    /// Incarnation of the metaservers; 0: no metaserver has sent any networks since the start of this
    /// process.
    incarnation: u64,
    /// Version of the cluster map.
    version: u64,
    /// Admitted networks; none: no metaserver has ever sent any.
    networks: Option<Arc<Networks>>,
}

struct Networks {
    all: BTreeSet<Network>,
    /// Lengths of their prefixes: so many look-ups find an address in any number of networks.
    prefixes: BTreeSet<u8>,
}

impl Networks {
    fn new(all: BTreeSet<Network>) -> Self {
        let prefixes = all.iter().map(Network::prefix).collect();
        Self { all, prefixes }
    }

    fn contain(&self, address: IpAddr) -> bool {
        let around = |prefix: &u8| Network::around(address, *prefix);
        self.prefixes.iter().filter_map(around).any(|network| self.all.contains(&network))
    }
}

impl ClientNetworks {
    /// The networks that were written down in the data server's directory.
    pub(crate) fn open(dir: &Path) -> Self {
        let file = dir.join(FILE);
        let written = read(&file).unwrap_or_else(|why| {
            tracing::warn!(
                "{}: {why}; no client is admitted until a metaserver sends the exported networks",
                file.display()
            );
            None
        });
        let networks = written.clone().map(|all| Arc::new(Networks::new(all)));
        let told = watch::Sender::new(Told { networks, ..Told::default() });
        Self {
            file,
            told,
            written: Mutex::new(written),
            waiting: Semaphore::new(WAITING_MAX),
            refused: Repeated::new(),
        }
    }

    /// Takes the networks that a metaserver told, of this version of the cluster map of its incarnation,
    /// which is obeyed. Those of an older version of the same map change nothing.
    pub fn tell(&self, incarnation: u64, version: u64, networks: BTreeSet<Network>) {
        self.told.set_if(|told| {
            if incarnation == told.incarnation && version < told.version {
                return false;
            }
            (told.incarnation, told.version) = (incarnation, version);
            let changes = told.networks.as_ref().is_none_or(|known| known.all != networks);
            if changes {
                tracing::info!(networks = %list(&networks), "admits clients of the exported networks");
                told.networks = Some(Arc::new(Networks::new(networks)));
            }
            changes
        });
    }

    /// Writes the networks down, durably, unless they are. Waits for the disk.
    ///
    /// # Errors
    /// The system's.
    pub fn write_down(&self) -> io::Result<()> {
        let Some(networks) = self.told.get().networks.clone() else { return Ok(()) };
        let mut written = self.written.lock();
        if written.as_ref() == Some(&networks.all) {
            return Ok(());
        }
        let lines: String = networks.all.iter().map(|network| format!("{network}\n")).collect();
        host::replace(&SystemFiles, &self.file, lines.as_bytes())?;
        *written = Some(networks.all.clone());
        Ok(())
    }

    /// True if the address is in an admitted network.
    #[must_use]
    pub fn admit(&self, address: IpAddr) -> bool {
        self.told.get().networks.as_ref().is_some_and(|networks| networks.contain(address))
    }

    /// Like [`Self::admit`], for a new client: waits a moment, since its network may just have been exported.
    pub(crate) async fn admit_soon(&self, address: IpAddr) -> bool {
        if self.admit(address) {
            return true;
        }
        let Ok(_place) = self.waiting.try_acquire() else { return false };
        let mut told = self.told.subscribe();
        let admitted =
            told.wait_for(|told| told.networks.as_ref().is_some_and(|networks| networks.contain(address)));
        tokio::time::timeout(NEWS_TIME_MAX, admitted).await.is_ok_and(|admitted| admitted.is_ok())
    }

    /// Logs that a client is refused: the first, and each doubling of their number.
    pub(crate) fn log_refusal(&self, address: IpAddr) {
        let Some(count) = self.refused.count() else { return };
        if self.told.get().networks.is_none() {
            tracing::warn!(
                %address, count,
                "refused a client: no metaserver has sent the exported networks yet; is it registered?"
            );
        } else {
            tracing::warn!(
                %address, count,
                "refused a client: nothing is exported to its address. If it is a client of this cluster, admit its network \
                 with heorot export add; else keep it from this port"
            );
        }
    }
}

/// The networks for a log line: the first ones.
fn list(networks: &BTreeSet<Network>) -> String {
    const SHOWN_MAX: usize = 8;
    let mut shown: Vec<_> = networks.iter().take(SHOWN_MAX).map(ToString::to_string).collect();
    if networks.len() > SHOWN_MAX {
        shown.push(format!("and {} more", networks.len() - SHOWN_MAX));
    }
    shown.join(", ")
}

/// None: there is no file.
fn read(file: &Path) -> Result<Option<BTreeSet<Network>>, String> {
    match std::fs::read_to_string(file) {
        Ok(text) => text.lines().map(str::parse).collect::<Result<_, _>>().map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASH: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 1, 0, 1));
    const ELM: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(11, 0, 0, 1));

    fn networks(all: &[&str]) -> BTreeSet<Network> {
        all.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn admits(told: &ClientNetworks) -> [bool; 2] {
        [told.admit(ASH), told.admit(ELM)]
    }

    #[test]
    fn an_address_is_found_in_networks_of_any_prefix_and_family() {
        let found =
            |all: &[&str], address: &str| Networks::new(networks(all)).contain(address.parse().unwrap());
        for (all, address, inside) in [
            (&["10.0.0.0/8", "fd00::/8"][..], "10.9.9.9", true),
            (&["10.0.0.0/8", "fd00::/8"], "::ffff:10.9.9.9", true),
            (&["10.0.0.0/8", "fd00::/8"], "fd12::1", true),
            (&["10.0.0.0/8", "fd00::/8"], "11.0.0.0", false),
            (&["10.0.0.0/8", "fd00::/64"], "10.0.0.1", true),
            (&["0.0.0.0/0"], "fd00::1", false),
            (&["::/0", "192.168.1.7"], "192.168.1.7", true),
            (&["::/0", "192.168.1.7"], "192.168.1.6", false),
            (&[], "10.0.0.1", false),
        ] {
            assert_eq!(found(all, address), inside, "{address} in {all:?}");
        }
    }

    /// ```text
    /// no networks yet  -> none;  10/8 of map 5  -> ash;  11/8 of map 4 -> as before;  none of map 6 -> none
    /// started again    -> as before; then the map of another incarnation is followed, whatever its version
    /// ```
    #[test]
    fn networks_are_kept_over_a_restart_and_those_of_an_older_map_change_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let told = ClientNetworks::open(dir.path());
        told.write_down().unwrap();
        assert_eq!((admits(&told), dir.path().join(FILE).exists()), ([false, false], false));
        told.tell(1, 5, networks(&["10.0.0.0/8", "192.168.0.0/16"]));
        told.tell(1, 4, networks(&["11.0.0.0/8"]));
        assert_eq!(admits(&told), [true, false]);
        told.write_down().unwrap();

        let again = ClientNetworks::open(dir.path());
        assert_eq!(admits(&again), [true, false]);
        again.tell(1, 2, networks(&["11.0.0.0/8"]));
        assert_eq!(admits(&again), [false, true]);
        again.tell(2, 1, networks(&[]));
        assert_eq!(admits(&again), [false, false]);
        again.write_down().unwrap();
        assert_eq!(std::fs::read_to_string(dir.path().join(FILE)).unwrap(), "");
        assert!(ClientNetworks::open(dir.path()).told.get().networks.is_some(), "none, and that is known");
    }

    #[test]
    fn a_damaged_file_admits_nobody_until_a_metaserver_has_told() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(FILE), "10.0.0.0/8\nhalf a l").unwrap();
        let told = ClientNetworks::open(dir.path());
        assert_eq!(admits(&told), [false, false]);
        told.tell(1, 1, networks(&["10.0.0.0/8"]));
        assert_eq!(admits(&told), [true, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_client_waits_for_the_next_heartbeat() {
        let dir = tempfile::tempdir().unwrap();
        let told = ClientNetworks::open(dir.path());
        let (admitted, ()) = tokio::join!(told.admit_soon(ASH), async {
            told.tell(1, 1, networks(&["11.0.0.0/8"]));
            tokio::time::sleep(Duration::from_secs(1)).await;
            told.tell(1, 2, networks(&["10.0.0.0/8"]));
        });
        assert!(admitted);
        assert!(!told.admit_soon(ELM).await);
    }
}
