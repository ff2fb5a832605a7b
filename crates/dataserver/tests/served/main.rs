//! A data server on a loopback port, with both of its programs.

mod additions;
mod admission;
mod client;
mod data;
mod left_behind;
mod ops;
mod targets;

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use dataserver::{DataServer, DataServerConfig, Incarnation, ObjectLengths, SharedTrash, TargetError};
use host::{ManualClock, SeededEntropy};
use nfs::{Limits, PeerKey, Server};
use parking_lot::Mutex;
use tempfile::TempDir;
use wire::handle::{FileHandle, HandleKey, Holder, ObjectHandle};

const CLUSTER: [u8; 16] = [0xc1; 16];
const NAME_SPACE: u64 = 5;
const INCARNATION: Incarnation = Incarnation { id: 77, epoch: 1 };

fn key() -> HandleKey {
    HandleKey::new([7; 32])
}

fn peer_key() -> PeerKey {
    PeerKey { cluster: CLUSTER, secret: [9; 32] }
}

/// What a metaserver would say: nothing, or one length for all objects.
#[derive(Default)]
struct Told {
    length: Mutex<Option<u64>>,
    asked: AtomicU32,
}

impl Told {
    fn set(&self, length: Option<u64>) {
        *self.length.lock() = length;
    }

    fn asked(&self) -> u32 {
        self.asked.load(Ordering::Relaxed)
    }
}

impl ObjectLengths for Told {
    fn length(&self, _: ObjectHandle) -> Pin<Box<dyn Future<Output = Option<u64>> + Send + '_>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let length = *self.length.lock();
        Box::pin(async move { length })
    }
}

/// A data server with one target, and the server that it is reached by.
struct Served {
    server: Server,
    ds: DataServer,
    told: Arc<Told>,
    clock: Arc<ManualClock>,
    dir: TempDir,
}

fn open(
    dir: &Path,
    told: &Arc<Told>,
    clock: &Arc<ManualClock>,
    seed: u64,
) -> Result<DataServer, TargetError> {
    let config = DataServerConfig {
        data_dir: dir.to_owned(),
        targets: vec![dir.join("target")],
        key: key(),
        peer_key: peer_key(),
        name: "ds1".into(),
        shared_trash: SharedTrash::default(),
    };
    DataServer::open(config, told.clone(), clock.clone(), Arc::new(SeededEntropy::new(seed)))
}

impl Served {
    async fn start() -> Self {
        Self::start_with(1).await
    }

    /// Its id and its target's come from the seed.
    async fn start_with(seed: u64) -> Self {
        let (dir, told, clock) = (tempfile::tempdir().unwrap(), Arc::default(), Arc::default());
        let ds = open(dir.path(), &told, &clock, seed).unwrap();
        ds.belong_to(NAME_SPACE, INCARNATION).unwrap();
        export_to(&ds, 1, &["127.0.0.0/8"]);
        ds.client_networks().write_down().unwrap();
        let server = listen(&ds).await;
        Self { server, ds, told, clock, dir }
    }

    /// Stops it and starts it again, on another port.
    async fn restart(self) -> Self {
        let Self { server, ds, told, clock, dir } = self;
        drop(server);
        drop(ds);
        // The connections' tasks hold the programs, and with them the lock, until they have ended.
        let ds = loop {
            match open(dir.path(), &told, &clock, 2) {
                Err(TargetError::Locked(_)) => tokio::time::sleep(Duration::from_millis(10)).await,
                opened => break opened.unwrap(),
            }
        };
        let server = listen(&ds).await;
        Self { server, ds, told, clock, dir }
    }

    fn target(&self) -> u64 {
        self.ds.space()[0].target
    }

    fn object(&self, inode: u64) -> ObjectHandle {
        ObjectHandle {
            file: FileHandle { volume: 1, inode, generation: 1 },
            column: 0,
            target: self.target(),
            unit: 64 << 10,
            columns: 1,
            incarnation: INCARNATION.id,
            epoch: 0,
            layout_epoch: 0,
            chain: self.target(),
            chain_version: 0,
        }
    }

    /// The handle of a layout to write.
    fn handle(&self, inode: u64) -> Bytes {
        self.object(inode).seal_for(Holder::Writer, &key())
    }

    /// The handle of a metaserver's call.
    fn server_handle(&self, inode: u64) -> Bytes {
        self.object(inode).seal(&key())
    }

    /// The handle of a layout, of an object that is made, as a metaserver does before it hands the handle out.
    async fn made(&self, inode: u64) -> Bytes {
        self.made_for_calls(inode).await;
        self.handle(inode)
    }

    async fn made_for_calls(&self, inode: u64) -> Bytes {
        let handle = self.server_handle(inode);
        let peer = data::peer(self, peer_key());
        assert_eq!(data::make(&peer, std::slice::from_ref(&handle)).await, Ok(()));
        handle
    }
}

/// A metaserver tells the exported networks.
fn export_to(ds: &DataServer, version: u64, networks: &[&str]) {
    let networks = networks.iter().map(|network| network.parse().unwrap()).collect();
    ds.client_networks().tell(INCARNATION.id, version, networks);
}

async fn listen(ds: &DataServer) -> Server {
    let address = "127.0.0.1:0".parse().unwrap();
    Server::start(address, ds.programs(), Limits::default(), ds.metrics().clone()).await.unwrap()
}
