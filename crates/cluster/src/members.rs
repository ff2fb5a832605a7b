//! The other metaservers of the group: calls to them, and their calls to this one.
//!
//! Consensus has an address of its own on each metaserver, apart from the address for clients: even the worst
//! load of clients does not delay consensus.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use host::{Entropy, Repeated};
use nfs::{
    Answer, Authenticated, CallFailure, Connection, Limits, Metrics, Peer, PeerAuth, PeerKey, PrivateProgram,
    Programs, Server, encoded,
};
use parking_lot::Mutex;
use replica::{CallFuture, Channel, Member, ProbeFuture, Replica, Transport, Unreachable};
use tokio::net::TcpStream;
use wire::consensus::{self, Call, Procedure, Reply, Status, call};

use crate::join_server::{JoinProgram, JoinServer};

/// Wait for a refused connection: a kernel refuses at once or not at all.
const REFUSAL_TIME_MAX: Duration = Duration::from_millis(200);

/// Calls over RPC. A connection for each member and [`Channel`], proved on both sides.
pub struct Members {
    key: PeerKey,
    entropy: Arc<dyn Entropy>,
    peers: Mutex<HashMap<(SocketAddr, Channel), Arc<Peer>>>,
}

impl Members {
    /// Returns members without connections; a connection is made when it is needed.
    #[must_use]
    pub fn new(key: PeerKey, entropy: Arc<dyn Entropy>) -> Self {
        Self { key, entropy, peers: Mutex::default() }
    }

    fn peer(&self, address: &str, channel: Channel) -> Result<Arc<Peer>, Unreachable> {
        let address: SocketAddr =
            address.parse().map_err(|_| Unreachable::NotSent(format!("{address:?} is no address")))?;
        let mut peers = self.peers.lock();
        let peer = peers.entry((address, channel)).or_insert_with(|| {
            let program = (consensus::PROGRAM, consensus::VERSION);
            Arc::new(Peer::new(address, program, self.key.clone(), Arc::clone(&self.entropy)))
        });
        Ok(Arc::clone(peer))
    }
}

impl Transport for Members {
    fn call(&self, to: &Member, channel: Channel, body: Bytes, limit: Duration) -> CallFuture {
        let peer = self.peer(&to.address, channel);
        Box::pin(async move {
            let peer = peer?;
            let args = call::Args { body };
            let answered: Result<call::Res, CallFailure> =
                peer.call(Procedure::Call as u32, &args, limit).await;
            match answered {
                Ok(Ok(answer)) => Ok(answer.body),
                Ok(Err(status)) => Err(Unreachable::NoAnswer(format!("{}: {status:?}", peer.address()))),
                Err(failure @ CallFailure::Connect(_)) => Err(Unreachable::NotSent(failure.to_string())),
                Err(failure) => Err(Unreachable::NoAnswer(format!("{}: {failure}", peer.address()))),
            }
        })
    }

    fn refuses_connections(&self, to: &Member) -> ProbeFuture {
        let address = to.address.clone();
        Box::pin(async move { is_refused(&address).await })
    }
}

/// True if a connection to `address` is refused: no process listens there, by the word of that kernel.
async fn is_refused(address: &str) -> bool {
    let connected = tokio::time::timeout(REFUSAL_TIME_MAX, TcpStream::connect(address)).await;
    matches!(connected, Ok(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused)
}

/// The program that the other metaservers call.
struct ConsensusProgram {
    replica: Replica,
    peer_auth: PeerAuth,
    refused: Repeated,
}

impl PrivateProgram for ConsensusProgram {
    fn number(&self) -> u32 {
        consensus::PROGRAM
    }

    fn version(&self) -> u32 {
        consensus::VERSION
    }

    fn peer_auth(&self) -> &PeerAuth {
        &self.peer_auth
    }

    fn call_of_peer(self: Arc<Self>, mut call: nfs::Call) -> Answer {
        Box::pin(async move {
            let arguments = Call::of_number(call.header.procedure, &mut call.arguments)?;
            Ok(encoded(&self.carry_out(&call.connection, arguments).await))
        })
    }
}

impl ConsensusProgram {
    async fn carry_out(&self, connection: &Connection, call: Call) -> Reply {
        let Call::Call(args) = call;
        Reply::Call(match self.replica.serve(&args.body).await {
            Ok(body) => Ok(call::ResOk { body }),
            Err(why) => {
                self.say_refused(connection, &why);
                Err(Status::Invalid)
            }
        })
    }

    fn say_refused(&self, connection: &Connection, why: &str) {
        if let Some(count) = self.refused.count() {
            tracing::warn!(peer = %connection.peer(), %why, count, "a metaserver's call is refused");
        }
    }
}

/// Listens on `address`, on the thread of consensus, for the other metaservers and for machines that join the
/// cluster.
///
/// # Errors
/// If `address` cannot be bound.
pub async fn serve_members(
    replica: Replica,
    address: SocketAddr,
    key: PeerKey,
    join_server: JoinServer,
    entropy: Arc<dyn Entropy>,
) -> std::io::Result<Server> {
    let peer_auth = PeerAuth::new(key, Arc::clone(&entropy));
    let runtime = replica.runtime().clone();
    let join_server = Arc::new(JoinProgram::new(join_server, replica.clone(), entropy));
    let programs = Programs::new(vec![
        Arc::new(Authenticated(Arc::new(ConsensusProgram { replica, peer_auth, refused: Repeated::new() }))),
        join_server,
    ]);
    let metrics: Arc<Metrics> = Arc::default();
    let server = Server::start(address, programs, Limits::default(), metrics);
    runtime.spawn(server).await.map_err(std::io::Error::other)?
}
