//! A metaserver in this process, with a data server that only says it is there.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cluster::{Begin, Rules};
use host::{ManualClock, SeededEntropy};
use metaserver::{Metaserver, MetaserverConfig, upcalls};
use namespace::{ClientRecord, Stamp, read};
use nfs::{Peer, PeerKey};
use replica::{Replica, ReplicaConfig};
use store::MemoryStore;
use tempfile::TempDir;
use wire::cluster::{Procedure, register};
use wire::data::{TargetCondition, TargetSpace};
use wire::handle::HandleKey;

use crate::fake_data::FakeData;

/// Of leases, on a clock that stands still. Longer than lazy reads may be behind.
pub const LEASE: Duration = Duration::from_secs(5);
const LEASE_SET: &str = "5s";
/// Longer than anything takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A metaserver that can be started again over the same state.
pub struct World {
    pub clock: Arc<ManualClock>,
    pub server: nfs::Server,
    pub replica: Replica,
    pub metaserver: Arc<Metaserver>,
    /// Files need a place. No data are written in these stories, but it is asked for lengths.
    pub data: FakeData,
    rules: Rules,
    life: u64,
    _dir: TempDir,
}

pub fn peer_key() -> PeerKey {
    PeerKey { cluster: [7; 16], secret: [8; 32] }
}

async fn serve(
    replica: &Replica,
    clock: &Arc<ManualClock>,
    rules: Rules,
    life: u64,
    data: &FakeData,
) -> (Arc<Metaserver>, nfs::Server) {
    let mut begin = Begin::for_everybody(rules);
    for (key, value) in [("lease", LEASE_SET), ("stripe_columns", "1")] {
        begin.set(key, value).expect("a setting");
    }
    let config = MetaserverConfig { volume: 1, cluster: [7; 16], begin: Some(begin) };
    let clock: Arc<dyn host::Clock> = Arc::clone(clock) as _;
    let entropy = Arc::new(SeededEntropy::new(life));
    let key = HandleKey::new([9; 32]);
    let metaserver =
        Metaserver::new(config, replica.clone(), key, peer_key(), clock, entropy).expect("a metaserver");
    let server = metaserver.serve(([127, 0, 0, 1], 0).into()).await.expect("it listens");
    register_at(&server, &data.address()).await;
    (metaserver, server)
}

/// A data server at `address` registers, in place of the one before.
pub async fn register_at(server: &nfs::Server, address: &str) {
    let program = (wire::cluster::PROGRAM, wire::cluster::VERSION);
    let peer = Peer::new(server.address(), program, peer_key(), Arc::new(SeededEntropy::new(1)));
    let space = TargetSpace {
        file_system: 1,
        target: 1,
        path: Bytes::from_static(b"/nowhere"),
        total: 1 << 40,
        free: 1 << 40,
        objects: 0,
        condition: TargetCondition::Ok,
        reflinks: false,
        name_space: 0,
        incarnation: 0,
        trash: 0,
        reserve: 0,
    };
    let mut args = register::Args {
        server: 1,
        name: Bytes::from_static(b"ds"),
        addresses: vec![Bytes::copy_from_slice(address.as_bytes())],
        service_address: Bytes::new(),
        zone: Bytes::new(),
        targets: vec![space],
        version: Bytes::from_static(b"0.1.0"),
        map_version: 0,
        clock_ms: 1_900_000_000_000,
        process: 0,
        known: 0,
        chains_of_map: 0,
        refilled: vec![],
        left: vec![],
        refill: register::Refill::default(),
    };
    // The first answer tells it whom to obey.
    for _ in 0..2 {
        let done: register::Res =
            peer.call(Procedure::Register as u32, &args, PATIENCE).await.expect("it answers");
        args.targets[0].incarnation = done.expect("it registers").incarnation;
    }
}

impl World {
    pub async fn start() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let config = ReplicaConfig::alone(dir.path().into(), 0);
        let stamp = Stamp { random: 0x1234_5678_9abc_def0, ..Stamp::default() };
        let store = Arc::new(MemoryStore::new());
        let replica = Replica::open(config, store, stamp, Arc::new(()), Arc::new(())).expect("a replica");
        Self::over(replica, dir, Arc::new(ManualClock::default()), Rules::OPEN).await
    }

    /// One that sees the commands of its replica, as the program does: it has opens in memory, too.
    pub async fn seeing() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let config = ReplicaConfig::alone(dir.path().into(), 0);
        let stamp = Stamp { random: 0x1234_5678_9abc_def0, ..Stamp::default() };
        let (observer, follower) = upcalls();
        let replica = Replica::open(config, Arc::new(MemoryStore::new()), stamp, Arc::new(()), observer);
        let world =
            Self::over(replica.expect("a replica"), dir, Arc::new(ManualClock::default()), Rules::OPEN).await;
        world.metaserver.follow_others(follower);
        world
    }

    /// A metaserver over a replica that has its files in `dir`.
    pub async fn over(replica: Replica, dir: TempDir, clock: Arc<ManualClock>, rules: Rules) -> Self {
        let data = FakeData::start().await;
        let (metaserver, server) = serve(&replica, &clock, rules, 1, &data).await;
        Self { clock, server, replica, metaserver, data, rules, life: 1, _dir: dir }
    }

    /// The server dies and comes back: what it had in memory is gone, what it acknowledged is not.
    pub async fn restart(&mut self) {
        self.metaserver.stop();
        self.server.stop();
        self.life += 1;
        (self.metaserver, self.server) =
            serve(&self.replica, &self.clock, self.rules, self.life, &self.data).await;
    }

    /// The record of a client, if it is there yet.
    pub fn client(&self, id: wire::nfs4::ClientId) -> Option<ClientRecord> {
        let view = self.replica.view().expect("a view");
        read::client(&*view, namespace::ClientId(id.0)).expect("reads")
    }

    /// Has time pass until every client that is silent meanwhile has lapsed, or is forgotten.
    pub async fn a_lease_passes(&self) {
        let all_lapsed = || {
            let view = self.replica.view().expect("a view");
            let clients = read::clients(&*view).expect("reads");
            clients.into_iter().all(|id| {
                read::client(&*view, id).expect("reads").is_none_or(|client| client.lapsed.is_some())
            })
        };
        // Again where the machine stood still for so long that the server began all leases anew.
        for _ in 0..10 {
            self.clock.advance(LEASE * 2);
            if tokio::time::timeout(PATIENCE / 10, self.holds(all_lapsed)).await.is_ok() {
                return;
            }
        }
        panic!("still not: leases run out");
    }

    /// Waits for what the server does by itself.
    pub async fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let waited = tokio::time::timeout(PATIENCE, self.holds(holds));
        waited.await.unwrap_or_else(|_| panic!("still not: {what}"));
    }

    async fn holds(&self, holds: impl Fn() -> bool) {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
