//! Process of a plain data server: objects in memory, without copies.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use host::SeededEntropy;
use nfs::{Authenticated, Limits, Peer, PeerAuth, Program, Programs, Server};
use parking_lot::Mutex;
use tokio::runtime::Runtime;
use wire::cluster::{Procedure, register};

use crate::net::Address;
use crate::objects::{ClientObjects, DataObjects, Objects};
use crate::service::{handle_key, peer_key};
use crate::shared::Shared;
use crate::stream_network::{SimNetwork, socket_address};

/// Longest time of a registration.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);
/// Pause after a registration that failed.
const RETRY: Duration = Duration::from_millis(500);

/// Starts the process in this runtime.
pub fn start(
    runtime: &Runtime,
    (address, metaservers): (Address, u64),
    shared: &Arc<Shared>,
    objects: &Arc<Mutex<Objects>>,
    random: u64,
) {
    let (shared, objects) = (Arc::clone(shared), Arc::clone(objects));
    let entropy = Arc::new(SeededEntropy::new(random));
    for to in 1..=metaservers {
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
            known: 0,
            chains_of_map: 0,
            refilled: vec![],
            left: vec![],
            refill: register::Refill::default(),
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
