//! Clients that mean no good: a metaserver with a data server on loopback ports, its store in memory.

mod client;
mod compounds;
mod half_records;
mod handles;
mod late_registrations;
mod late_writes;
mod names;
mod numbers;
mod rpc;
mod table;

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ::cluster::{Begin, Rules};
use dataserver::{
    DataServer, DataServerConfig, ObjectLengths, Reached, Registered, Registration, SharedTrash,
};
use host::{SeededEntropy, SystemClock};
use metaserver::{Metaserver, MetaserverConfig};
use namespace::Stamp;
use nfs::{Limits, Peer, PeerKey, Server};
use replica::{Replica, ReplicaConfig};
use store::MemoryStore;
use tempfile::TempDir;
use wire::cluster;
use wire::handle::{FileHandle, HandleKey, ObjectHandle};

const CLUSTER: [u8; 16] = [0xc1; 16];

fn peer_key() -> PeerKey {
    PeerKey { cluster: CLUSTER, secret: [9; 32] }
}

fn key() -> HandleKey {
    HandleKey::new([7; 32])
}

/// The only column of a file, with a stripe unit of 64 KiB.
fn object(file: FileHandle, target: u64, incarnation: u64) -> ObjectHandle {
    ObjectHandle {
        file,
        column: 0,
        target,
        unit: 65536,
        columns: 1,
        incarnation,
        epoch: 0,
        layout_epoch: 0,
        chain: target,
        chain_version: 0,
    }
}

struct Scene {
    server: Server,
    metaserver: Arc<Metaserver>,
    replica: Replica,
    data: Server,
    dataserver: Arc<DataServer>,
    _dir: TempDir,
}

/// Nobody tells the data server how long an object is.
struct Untold;

impl ObjectLengths for Untold {
    fn length(&self, _: ObjectHandle) -> Pin<Box<dyn Future<Output = Option<u64>> + Send + '_>> {
        Box::pin(async { Some(0) })
    }
}

/// A data server with its directory in `dir`.
fn dataserver(dir: &Path, entropy: u64) -> Arc<DataServer> {
    let config = DataServerConfig {
        data_dir: dir.join("ds"),
        targets: vec![dir.join("ds/target")],
        key: key(),
        peer_key: peer_key(),
        name: "ds".into(),
        shared_trash: SharedTrash::default(),
    };
    let (clock, entropy) = (Arc::new(SystemClock::default()), Arc::new(SeededEntropy::new(entropy)));
    Arc::new(DataServer::open(config, Arc::new(Untold), clock, entropy).unwrap())
}

/// A data server's way to a metaserver.
fn peer_of(server: &Server) -> Peer {
    let program = (cluster::PROGRAM, cluster::VERSION);
    Peer::new(server.address(), program, peer_key(), Arc::new(SeededEntropy::new(1)))
}

/// Sends a registration.
async fn tell(peer: &Peer, sent: &Registration) -> cluster::register::ResOk {
    let procedure = cluster::Procedure::Register as u32;
    let told: Result<cluster::register::Res, _> =
        peer.call(procedure, &sent.args, Duration::from_secs(60)).await;
    told.unwrap().unwrap()
}

/// Registers a data server.
async fn register(peer: &Peer, dataserver: &Arc<DataServer>, reached: &Reached) {
    loop {
        let sent = dataserver.registration(reached, |_| 0).await.unwrap();
        match dataserver.registered(&sent, &tell(peer, &sent).await).await.unwrap() {
            Registered::Yes => return,
            Registered::Again => {}
            refused => panic!("{refused:?}"),
        }
    }
}

impl Scene {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let peer_key = peer_key();
        let config = ReplicaConfig::alone(dir.path().join("mds"), 0);
        std::fs::create_dir_all(&config.dir).unwrap();
        let stamp = Stamp { random: 0x1234_5678_9abc_def0, ..Stamp::default() };
        let store = Arc::new(MemoryStore::new());
        let replica = Replica::open(config, store, stamp, Arc::new(()), Arc::new(())).unwrap();
        let mut begin = Begin::for_everybody(Rules::OPEN);
        for (key, value) in [("lease", "1h"), ("stripe_columns", "1")] {
            begin.set(key, value).expect("a setting");
        }
        let config = MetaserverConfig { volume: 1, cluster: CLUSTER, begin: Some(begin) };
        let (clock, entropy) = (Arc::new(SystemClock::default()), Arc::new(SeededEntropy::new(1)));
        let metaserver =
            Metaserver::new(config, replica.clone(), key(), peer_key.clone(), clock.clone(), entropy.clone())
                .unwrap();
        let anywhere = "127.0.0.1:0".parse().unwrap();
        let server = metaserver.serve(anywhere).await.unwrap();

        let dataserver = dataserver(dir.path(), 2);
        let data = Server::start(anywhere, dataserver.programs(), Limits::default(), Arc::default());
        let data = data.await.unwrap();
        let reached = Reached { advertise: data.address(), service_address: None, zone: bytes::Bytes::new() };
        register(&peer_of(&server), &dataserver, &reached).await;
        Self { server, metaserver, replica, data, dataserver, _dir: dir }
    }

    /// The data server's target.
    fn target(&self) -> u64 {
        self.dataserver.space()[0].target
    }

    /// The incarnation in handles of objects.
    fn incarnation(&self) -> u64 {
        self.dataserver.space()[0].incarnation
    }

    /// Ends it. Whatever happened, the store is sound.
    fn stop(self) {
        let findings = namespace::check(&*self.replica.view().unwrap()).unwrap();
        assert_eq!(findings, Vec::<String>::new());
        self.server.stop();
        self.metaserver.stop();
    }
}
