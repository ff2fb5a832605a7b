//! Chains of data servers on loopback ports of one process. The test tells the chains, as the leader would.

mod alone;
mod attach;
mod caller;
#[path = "../served/client.rs"]
#[allow(dead_code)] // it is the other tests', too
mod client;
mod cost;
mod dirty;
mod disk;
mod dropped;
mod failures;
mod leases;
mod lost;
mod mend;
mod moved;
mod no_room;
mod ranges;
mod reads;
mod refill;
mod refusals;
mod relays;
mod stories;
mod storm;
mod writes;

use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dataserver::{
    DataServer, DataServerConfig, Environment, Incarnation, ObjectLengths, SharedTrash, TargetError,
};
use host::{Clock, ManualClock, SeededEntropy, SystemEntropy};
use nfs::{CallFailure, Limits, Peer, PeerKey, Server};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use wire::data::{Chain, Member, MemberState, PROGRAM, Procedure, Status, VERSION};
use wire::data::{commit, make, read, remove, stat, truncate, write};
use wire::handle::{FileHandle, HandleKey, Holder, ObjectHandle};
use wire::xdr::{Decode, Encode};

pub use MemberState::{Away, In, Refilling};
use disk::FillingDisk;

const CLUSTER: [u8; 16] = [0xc1; 16];
const NAME_SPACE: u64 = 5;
const INCARNATION: Incarnation = Incarnation { id: 77, epoch: 1 };
const CHAIN: u64 = 1 << 60;
/// A lease that no test outlives, by a clock that the test moves.
const LEASE: Duration = Duration::from_secs(10);
/// A test that waits longer has failed.
const PATIENCE: Duration = Duration::from_secs(30);

fn key() -> HandleKey {
    HandleKey::new([7; 32])
}

fn peer_key() -> PeerKey {
    PeerKey { cluster: CLUSTER, secret: [9; 32] }
}

/// No metaserver can be asked.
struct Nothing;

impl ObjectLengths for Nothing {
    fn length(&self, _: ObjectHandle) -> Pin<Box<dyn Future<Output = Option<u64>> + Send + '_>> {
        Box::pin(std::future::ready(Some(0)))
    }
}

/// A data server with one target, on threads of its own, so that it can be killed.
pub struct Served {
    server: Server,
    ds: Arc<DataServer>,
    runtime: Option<Runtime>,
    target: u64,
    clock: Arc<ManualClock>,
    disk: Arc<FillingDisk>,
}

impl Served {
    async fn start(dir: PathBuf, clock: Arc<ManualClock>, seed: u64) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let its_clock = Arc::clone(&clock);
        let disk = Arc::<FillingDisk>::default();
        let its_disk = Arc::clone(&disk);
        let started = runtime.spawn(async move {
            let clock = its_clock;
            let config = DataServerConfig {
                data_dir: dir.clone(),
                targets: vec![dir.join("target")],
                key: key(),
                peer_key: peer_key(),
                name: format!("ds{seed}"),
                shared_trash: SharedTrash::default(),
            };
            let ds = loop {
                let machine = Environment::of_machine(clock.clone(), Arc::new(SeededEntropy::new(seed)));
                let environment = Environment { disk: its_disk.clone(), ..machine };
                match DataServer::open_on(environment, config.clone(), Arc::new(Nothing)) {
                    // Work of a killed one on its disk may not have ended yet.
                    Err(TargetError::Locked(_)) => tokio::time::sleep(Duration::from_millis(2)).await,
                    opened => break opened.unwrap(),
                }
            };
            ds.belong_to(NAME_SPACE, INCARNATION).unwrap();
            ds.client_networks().tell(INCARNATION.id, 1, ["127.0.0.0/8".parse().unwrap()].into());
            let (any, metrics) = ("127.0.0.1:0".parse().unwrap(), ds.metrics().clone());
            let server = Server::start(any, ds.programs(), Limits::default(), metrics).await.unwrap();
            (server, Arc::new(ds))
        });
        let (server, ds) = started.await.unwrap();
        let target = ds.space()[0].target;
        Self { server, ds, runtime: Some(runtime), target, clock, disk }
    }

    /// Ends all its work at once, as kill -9 does.
    fn kill(&mut self) {
        self.server.stop();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Data servers and one chain of them.
pub struct World {
    nodes: Vec<Served>,
    dirs: Vec<TempDir>,
    version: u32,
    /// Members in the order of the leader: one that is taken in goes behind all that are in.
    order: Vec<usize>,
    /// Members that are in.
    are_in: Vec<usize>,
    /// Addresses that are told for members, in place of their own.
    instead: HashMap<usize, SocketAddr>,
}

impl World {
    /// A chain of `count` members, all in, with version 1, told and leased.
    async fn of(count: usize) -> Self {
        let (mut nodes, mut dirs) = (Vec::new(), Vec::new());
        for node in 0..count {
            let dir = tempfile::tempdir().unwrap();
            let seed = node as u64 + 1;
            nodes.push(Served::start(dir.path().to_owned(), Arc::default(), seed).await);
            dirs.push(dir);
        }
        let mut world = Self {
            nodes,
            dirs,
            version: 0,
            order: (0..count).collect(),
            are_in: vec![],
            instead: HashMap::new(),
        };
        world.change(&vec![In; count]);
        world
    }

    fn chain(&self, states: &[MemberState]) -> Chain {
        let member = |(node, state): (usize, &MemberState)| Member {
            target: self.nodes[node].target,
            address: Bytes::from(self.address(node).to_string()),
            state: *state,
        };
        let members = self.order.iter().map(|node| member((*node, &states[*node]))).collect();
        Chain { id: CHAIN, version: self.version, verifier: 42, members }
    }

    fn address(&self, node: usize) -> SocketAddr {
        self.instead.get(&node).copied().unwrap_or_else(|| self.nodes[node].server.address())
    }

    /// A new version with these members, told to all that are not away.
    fn change(&mut self, states: &[MemberState]) {
        let hear: Vec<_> = (0..states.len()).filter(|node| states[*node] != Away).collect();
        self.change_for(states, &hear);
    }

    /// A new version with these members, told to some data servers.
    fn change_for(&mut self, states: &[MemberState], hear: &[usize]) {
        self.version += 1;
        self.are_in.retain(|node| states[*node] == In);
        let new =
            self.order.iter().copied().filter(|node| states[*node] == In && !self.are_in.contains(node));
        self.are_in = self.are_in.iter().copied().chain(new).collect();
        let others = self.order.iter().copied().filter(|node| states[*node] != In);
        self.order = self.are_in.iter().copied().chain(others).collect();
        hear.iter().for_each(|node| self.tell(*node, states));
    }

    /// Tells one data server the current version, and gives it a lease.
    fn tell(&self, node: usize, states: &[MemberState]) {
        let ds = &self.nodes[node].ds;
        ds.tell_all_chains(u64::from(self.version), &[self.chain(states)]);
        ds.extend_lease(self.nodes[node].clock.monotonic(), LEASE);
    }

    /// The clocks of all data servers go on.
    fn advance(&self, time: Duration) {
        self.nodes.iter().for_each(|node| node.clock.advance(time));
    }

    /// Starts a killed data server again, at another address.
    async fn restart(&mut self, node: usize) {
        self.nodes[node].kill();
        let dir = self.dirs[node].path().to_owned();
        let clock = Arc::clone(&self.nodes.remove(node).clock);
        let started = Served::start(dir, clock, 100 + node as u64).await;
        self.nodes.insert(node, started);
    }

    fn object(&self, node: usize, inode: u64) -> ObjectHandle {
        ObjectHandle {
            file: FileHandle { volume: 1, inode, generation: 1 },
            column: 0,
            target: self.nodes[node].target,
            unit: 64 << 10,
            columns: 1,
            incarnation: INCARNATION.id,
            epoch: 0,
            layout_epoch: 0,
            chain: CHAIN,
            chain_version: 0,
        }
    }

    /// A metaserver's handle of the object at this member.
    fn at(&self, node: usize, inode: u64) -> Bytes {
        self.object(node, inode).seal(&key())
    }

    /// A metaserver's handle with an epoch.
    fn of_epoch(&self, node: usize, inode: u64, epoch: u32) -> Bytes {
        ObjectHandle { epoch, ..self.object(node, inode) }.seal(&key())
    }

    /// A client's handle of the object at this member.
    fn of_client(&self, node: usize, inode: u64) -> Bytes {
        self.object(node, inode).seal_for(Holder::Writer, &key())
    }

    fn peer(&self, node: usize) -> Arc<Peer> {
        peer(self.nodes[node].server.address())
    }

    async fn make(&self, node: usize, inode: u64) -> make::Res {
        let handles = vec![self.at(node, inode)];
        call(&self.peer(node), Procedure::Make, &make::Args { handles }).await.unwrap()
    }

    async fn remove(&self, node: usize, inode: u64) -> remove::Res {
        let handles = vec![self.at(node, inode)];
        call(&self.peer(node), Procedure::Remove, &remove::Args { handles, only: remove::Only::All })
            .await
            .unwrap()
    }

    async fn write(&self, node: usize, inode: u64, offset: u64, data: impl Into<Bytes>) -> write::Res {
        self.begin_write(node, inode, offset, data).await.unwrap()
    }

    /// A write that goes on beside the test.
    fn begin_write(
        &self,
        node: usize,
        inode: u64,
        offset: u64,
        data: impl Into<Bytes>,
    ) -> tokio::task::JoinHandle<write::Res> {
        let args = write::Args {
            handle: self.at(node, inode),
            offset,
            stable: false,
            sums: vec![],
            data: data.into().into(),
        };
        let peer = self.peer(node);
        tokio::spawn(async move { call(&peer, Procedure::Write, &args).await.unwrap() })
    }

    async fn read(&self, node: usize, inode: u64, offset: u64, count: u32) -> Result<Bytes, Status> {
        self.read_by(node, self.at(node, inode), offset, count).await
    }

    async fn read_by(&self, node: usize, handle: Bytes, offset: u64, count: u32) -> Result<Bytes, Status> {
        let args = read::Args { handle, offset, count };
        let read: read::Res = call(&self.peer(node), Procedure::Read, &args).await.unwrap();
        read.map(|ok| ok.payload.to_bytes())
    }

    async fn truncate(&self, node: usize, handle: Bytes, len: u64) -> truncate::Res {
        call(&self.peer(node), Procedure::Truncate, &truncate::Args { handle, len }).await.unwrap()
    }

    async fn commit(&self, node: usize, handle: Bytes) -> commit::Res {
        call(&self.peer(node), Procedure::Commit, &commit::Args { handle }).await.unwrap()
    }

    async fn stat(&self, node: usize, handle: Bytes) -> Result<stat::ObjectStat, Status> {
        let args = stat::Args { handles: vec![handle], sync: false };
        let found: stat::Res = call(&self.peer(node), Procedure::Stat, &args).await.unwrap();
        found.map(|ok| ok.objects[0].expect("it is there"))
    }

    /// The object's bytes in the member's file; none: it is not there.
    fn bytes_at(&self, node: usize, inode: u64) -> Option<Vec<u8>> {
        let name = format!("{:02x}/{:08x}.{inode:016x}.{:08x}.{:08x}", inode & 0xff, 1, 1, 0);
        std::fs::read(self.dirs[node].path().join("target/objects").join(name)).ok()
    }

    /// All members have the same bytes of the object.
    fn equal(&self, inode: u64) -> Option<Vec<u8>> {
        let first = self.bytes_at(0, inode);
        for node in 1..self.nodes.len() {
            assert!(
                self.bytes_at(node, inode) == first,
                "member {node} differs from the first in object {inode}"
            );
        }
        first
    }
}

fn peer(address: SocketAddr) -> Arc<Peer> {
    Arc::new(Peer::new(address, (PROGRAM, VERSION), peer_key(), Arc::new(SystemEntropy)))
}

async fn call<R: Decode>(
    peer: &Peer,
    procedure: Procedure,
    args: &(dyn Encode + Sync),
) -> Result<R, CallFailure> {
    peer.call(procedure as u32, args, PATIENCE).await
}

/// Waits until something is so.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waits = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waits).await.is_ok(), "in vain: {what}");
}
