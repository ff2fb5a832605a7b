//! Process of a whole data server: the real one, over files of the host, on the simulated network and disk.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use dataserver::{
    Blocking, DataServer, DataServerConfig, Environment, ObjectLengths, ObjectName, Reached, Registered,
    SharedTrash,
};
use host::{Entropy, SeededEntropy};
use nfs::{Limits, Peer, Server};
use tempfile::TempDir;
use wire::cluster::{Procedure, register, size};
use wire::handle::{HandleKey, ObjectHandle};

use crate::flips;
use crate::net::Address;
use crate::object_disk::ObjectDisk;
use crate::service::{SimClock, handle_key, peer_key};
use crate::shared::Shared;
use crate::stream_network::{SimNetwork, socket_address};

/// Longest time of a metaserver's answer, as of `heorot ds`.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
/// Pause after a registration that failed.
const RETRY: Duration = Duration::from_millis(300);
/// Directory in memory.
const MEMORY: &str = "/dev/shm";

/// Directory of a machine, in memory if there is such a place.
///
/// # Panics When there is no place for it.
#[must_use]
pub fn directory() -> TempDir {
    let in_memory = tempfile::Builder::new().prefix("heorot-sim").tempdir_in(MEMORY).ok();
    // tmpfs has attributes since Linux 6.6.
    let has_attributes = |dir: &TempDir| {
        rustix::fs::setxattr(dir.path(), "user.heorot.probe", &[1], rustix::fs::XattrFlags::empty()).is_ok()
    };
    let elsewhere = || tempfile::tempdir().expect("a place for the files of a data server");
    in_memory.filter(has_attributes).unwrap_or_else(elsewhere)
}

/// Machine of a whole data server.
pub struct Place {
    /// Its address.
    pub address: Address,
    /// Number of metaservers.
    pub metaservers: u64,
    /// State shared with the simulation.
    pub shared: Arc<Shared>,
    /// Its disk.
    pub disk: ObjectDisk,
    /// Its directory.
    pub dir: PathBuf,
    /// Source of the random bits of the process.
    pub random: u64,
    /// Set when the process has ended by itself.
    pub has_ended: Arc<AtomicBool>,
    /// Set to the random number that the process tells the metaservers.
    pub process_number: Arc<AtomicU64>,
}

impl Place {
    fn network(&self) -> Arc<SimNetwork> {
        let disk = self.disk.clone();
        Arc::new(SimNetwork::new(self.address, &self.shared).with_power(move || disk.is_dead()))
    }

    /// Serves, for as long as the runtime that it runs in.
    pub async fn run(self) {
        let Err(why) = self.serve().await else { return };
        self.has_ended.store(true, Ordering::Relaxed);
        if self.disk.works() {
            self.shared
                .report_failure(self.shared.incarnation(), format!("data server {}: {why}", self.address));
        }
    }

    async fn serve(&self) -> Result<(), String> {
        let entropy: Arc<dyn Entropy> = Arc::new(SeededEntropy::new(self.random));
        let peers: Vec<Arc<Peer>> = (1..=self.metaservers)
            .map(|to| {
                let program = (wire::cluster::PROGRAM, wire::cluster::VERSION);
                let at = socket_address(to);
                Arc::new(Peer::new_on(self.network(), at, program, peer_key(), Arc::clone(&entropy)))
            })
            .collect();
        let disk = self.disk.clone();
        let environment = Environment {
            disk: Arc::new(self.disk.clone()),
            clock: Arc::new(SimClock::begin(&self.shared, &Arc::new(AtomicI64::new(0)))),
            entropy,
            network: self.network(),
            blocking: Blocking::InTasks(Arc::new(move || disk.time())),
        };
        let config = DataServerConfig {
            data_dir: self.dir.clone(),
            targets: vec![self.dir.join("target")],
            key: handle_key(),
            peer_key: peer_key(),
            name: format!("ds{}", self.address),
            shared_trash: SharedTrash::default(),
        };
        let lengths = Arc::new(Lengths { peers: peers.clone(), key: handle_key() });
        let server = DataServer::open_on(environment, config, lengths).map_err(|e| e.to_string())?;
        self.process_number.store(server.process(), Ordering::Relaxed);
        if self.shared.data.flips_bits {
            server.set_checks(flips::CHECKS);
        }
        let (server, at) = (Arc::new(server), socket_address(self.address));
        let (network, programs) = (self.network(), server.programs());
        let listens =
            Server::start_on(&*network, at, programs, Limits::default(), Arc::clone(server.metrics()));
        let listens = listens.await.map_err(|e| e.to_string())?;
        for peer in peers {
            tokio::spawn(beat(Arc::clone(&server), peer, Arc::clone(&self.shared)));
        }
        tokio::spawn(server.refill_members());
        tokio::spawn(Arc::clone(&server).care_for_targets());
        std::future::pending::<()>().await;
        drop(listens);
        Ok(())
    }
}

/// Registers with one metaserver, again and again.
async fn beat(server: Arc<DataServer>, peer: Arc<Peer>, shared: Arc<Shared>) {
    let known = Arc::new(AtomicI64::new(0));
    loop {
        let pause = match register(&server, &peer, &known).await {
            Ok((Registered::Again, _)) => continue,
            Ok((Registered::Yes, heartbeat)) => heartbeat,
            Ok((refused, _)) => {
                shared.note(|| format!("{} is not registered: {refused:?}", server.name()));
                RETRY
            }
            Err(why) => {
                shared.note(|| format!("{} is not registered: {why}", server.name()));
                RETRY
            }
        };
        tokio::time::sleep(pause).await;
    }
}

async fn register(
    server: &Arc<DataServer>,
    peer: &Peer,
    known: &AtomicI64,
) -> Result<(Registered, Duration), String> {
    let advertise = socket_address(server_address(server));
    let reached = Reached { advertise, service_address: None, zone: Bytes::new() };
    let sent = server.registration(&reached, |_| known.load(Ordering::Relaxed) as u64).await?;
    let procedure = Procedure::Register as u32;
    let answer = peer.call::<register::Res>(procedure, &sent.args, ANSWER_TIME_MAX).await;
    let done = answer.map_err(|e| e.to_string())?.map_err(|status| format!("{status:?}"))?;
    let registered = server.registered(&sent, &done).await?;
    known.store(done.map_version as i64, Ordering::Relaxed);
    Ok((registered, Duration::from_millis(u64::from(done.heartbeat_ms).max(100))))
}

fn server_address(server: &DataServer) -> Address {
    server.name().trim_start_matches("ds").parse().unwrap_or(0)
}

/// Looks up lengths of objects at the metaservers.
struct Lengths {
    peers: Vec<Arc<Peer>>,
    key: HandleKey,
}

impl ObjectLengths for Lengths {
    fn length(&self, object: ObjectHandle) -> Pin<Box<dyn Future<Output = Option<u64>> + Send + '_>> {
        Box::pin(async move {
            let args = size::Args { handle: object.seal(&self.key) };
            for peer in &self.peers {
                match peer.call::<size::Res>(Procedure::Size as u32, &args, ANSWER_TIME_MAX).await {
                    Ok(Ok(size)) => return Some(size.len),
                    Ok(Err(_)) => return None,
                    Err(_) => {}
                }
            }
            None
        })
    }
}

/// Files of the objects in the directory of a machine, with their names, in their order.
#[must_use]
pub fn objects(dir: &Path) -> Vec<(ObjectName, PathBuf)> {
    let root = dir.join("target/objects");
    let Ok(directories) = std::fs::read_dir(root) else { return vec![] };
    let entries = directories.flatten().filter_map(|entry| std::fs::read_dir(entry.path()).ok()).flatten();
    let named = entries.flatten().filter_map(|entry| {
        let name = ObjectName::parse(entry.file_name().to_str()?)?;
        Some((name, entry.path()))
    });
    let mut all: Vec<_> = named.collect();
    all.sort();
    all
}

/// Bytes of the chain in the mark of an object's file: docs/disk-format.md.
const CHAIN_IN_MARK: std::ops::Range<usize> = 21..29;

/// The chain in the mark of an object's file.
#[must_use]
pub fn chain_of(file: &Path) -> Option<u64> {
    let mut mark = [0; 64];
    let len = rustix::fs::getxattr(file, "user.heorot.epoch", &mut mark).ok()?;
    let chain = mark[..len].get(CHAIN_IN_MARK)?;
    Some(u64::from_be_bytes(chain.try_into().ok()?))
}
