//! Machine of one simulated data server: objects that outlive its process, and, while it runs, a process that
//! serves them and registers with all metaservers, as `heorot ds` does.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use host::SeededEntropy;
use nfs::{Authenticated, Limits, Peer, PeerAuth, Program, Programs, Server};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};
use wire::cluster::{Procedure, register};

use crate::bug::Bug;
use crate::net::Address;
use crate::objects::{ClientObjects, DataObjects, Objects};
use crate::rng::Rng;
use crate::service::{handle_key, peer_key};
use crate::shared::Shared;
use crate::stream_network::{SimNetwork, socket_address};

/// Address of the first data server.
pub const DATA_SERVERS: Address = 50;
/// Longest time of a registration.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);
/// Pause after a registration that failed.
const RETRY: Duration = Duration::from_millis(500);

/// Machine of a data server.
pub struct DataServer {
    /// Its address.
    pub address: Address,
    /// Its objects.
    pub objects: Arc<Mutex<Objects>>,
    /// End of the stall of its process.
    pub stalled_until_ms: u64,
    /// Time of its next start, if it is down.
    pub starts_at_ms: u64,
    /// Number of metaservers.
    metaservers: u64,
    shared: Arc<Shared>,
    rng: Rng,
    process: Option<Runtime>,
}

impl DataServer {
    /// A machine that is switched off.
    #[must_use]
    pub fn new(address: Address, metaservers: u64, shared: &Arc<Shared>, rng: Rng) -> Self {
        let removes_nothing = shared.bug == Some(Bug::ObjectsStay);
        Self {
            address,
            objects: Arc::new(Mutex::new(Objects::new(address, removes_nothing))),
            stalled_until_ms: 0,
            starts_at_ms: 0,
            metaservers,
            shared: Arc::clone(shared),
            rng,
            process: None,
        }
    }

    /// True if its process runs.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.process.is_some()
    }

    /// Starts the process.
    ///
    /// # Panics When the host cannot create a runtime.
    pub fn start(&mut self) {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime without threads and sockets");
        let (address, shared, objects) = (self.address, Arc::clone(&self.shared), Arc::clone(&self.objects));
        let entropy = Arc::new(SeededEntropy::new(self.rng.number()));
        for to in 1..=self.metaservers {
            let network = Arc::new(SimNetwork::new(address, &shared));
            let program = (wire::cluster::PROGRAM, wire::cluster::VERSION);
            let peer = Peer::new_on(network, socket_address(to), program, peer_key(), entropy.clone());
            runtime.spawn(beat(address, peer, Arc::clone(&objects)));
        }
        runtime.spawn(async move {
            let key = handle_key();
            let peer_auth = PeerAuth::new(peer_key(), entropy);
            let clients = ClientObjects { objects: Arc::clone(&objects), key: key.clone() };
            let data = Arc::new(DataObjects { objects, peer_auth, key });
            let programs: Vec<Arc<dyn Program>> = vec![Arc::new(Authenticated(data)), Arc::new(clients)];
            let (network, at) = (SimNetwork::new(address, &shared), socket_address(address));
            let programs = Programs::new(programs);
            let server = Server::start_on(&network, at, programs, Limits::default(), Arc::default()).await;
            match server {
                Ok(server) => {
                    std::future::pending::<()>().await;
                    drop(server);
                }
                Err(why) => shared.report_failure(1, format!("data server {address}: {why}")),
            }
        });
        self.process = Some(runtime);
    }

    /// Ends the process at once.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Lets `ms` pass.
    pub fn advance(&self, ms: u64) {
        if let Some(runtime) = &self.process {
            runtime.block_on(async { tokio::time::sleep(Duration::from_millis(ms)).await });
        }
    }
}

/// Registers with one metaserver, again and again.
async fn beat(address: Address, peer: Peer, objects: Arc<Mutex<Objects>>) {
    loop {
        let space = objects.lock().space();
        let obeyed = (space.name_space, space.incarnation);
        let args = register::Args {
            server: address,
            name: Bytes::from(format!("ds{address}")),
            addresses: vec![Bytes::from(socket_address(address).to_string())],
            service_address: Bytes::new(),
            zone: Bytes::new(),
            targets: vec![space],
            version: Bytes::from_static(b"0.1.0"),
            map_version: 0,
            clock_ms: 0,
            process: 0,
            chains_of_map: 0,
            refilled: vec![],
            left: vec![],
        };
        let answer = peer.call::<register::Res>(Procedure::Register as u32, &args, ANSWER_TIME_MAX).await;
        let pause = match answer {
            Ok(Ok(done)) if (done.name_space, done.incarnation) != obeyed => {
                objects.lock().obeys = (done.name_space, done.incarnation);
                continue;
            }
            Ok(Ok(done)) => Duration::from_millis(done.heartbeat_ms.into()),
            Ok(Err(_)) | Err(_) => RETRY,
        };
        tokio::time::sleep(pause).await;
    }
}
