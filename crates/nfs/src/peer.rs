//! Peer client: a connection to another server of the cluster, made on demand, authenticated on both sides,
//! and made again after a failure.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use host::{BufferPool, Entropy};
use tokio::time::Instant;
use wire::handshake::{Procedure, hello, prove};
use wire::rpc::Credential;
use wire::xdr::{Decode, Encode};

use crate::connection::Surroundings;
use crate::stream::StreamNetwork;
use crate::tcp::TcpNetwork;
use crate::{CallFailure, Connection, Limits, Programs};

/// Retry interval after a failed connect.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(300);
// Procedure numbers, the same in every private program.
const HELLO: u32 = Procedure::Hello as u32;
const PROVE: u32 = Procedure::Prove as u32;
/// Time to look if a connection is open: a task that makes one keeps others waiting.
const LOOK_TIME_MAX: Duration = Duration::from_millis(50);
/// Time limit of a connect within the cluster.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(3);

/// Buffers for what peers answer: one pool for all peers of the process, whose bound is for all of them
/// together. With one for each, a hundred data servers would keep 13 GiB.
static POOL: LazyLock<BufferPool> = LazyLock::new(BufferPool::default);

/// Cluster id and secret, which both ends of a private connection hold.
#[derive(Clone)]
pub struct PeerKey {
    /// The cluster's id.
    pub cluster: [u8; 16],
    /// Cluster secret; each side proves that it holds the secret.
    pub secret: [u8; 32],
}

impl std::fmt::Debug for PeerKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PeerKey(secret)")
    }
}

/// Client of one program of one other server.
pub struct Peer {
    network: Arc<dyn StreamNetwork>,
    address: SocketAddr,
    program: (u32, u32),
    /// Key for the proof when the connection is made; none: no proof.
    proves: Option<(PeerKey, Arc<dyn Entropy>)>,
    around: Surroundings,
    connection: tokio::sync::Mutex<Current>,
}

/// Open connection, or the last failure.
#[derive(Default)]
struct Current {
    open: Option<Arc<Connection>>,
    failed: Option<(Instant, CallFailure)>,
}

impl Peer {
    /// Client of the program (number, version) at `address`. Nothing is sent yet.
    #[must_use]
    pub fn new(address: SocketAddr, program: (u32, u32), key: PeerKey, entropy: Arc<dyn Entropy>) -> Self {
        Self::new_on(Arc::new(TcpNetwork), address, program, key, entropy)
    }

    /// The same on another network than TCP.
    #[must_use]
    pub fn new_on(
        network: Arc<dyn StreamNetwork>,
        address: SocketAddr,
        program: (u32, u32),
        key: PeerKey,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        Self::with(network, address, program, Some((key, entropy)))
    }

    /// Client of a server without a proof, for a machine that has not joined the cluster yet.
    #[must_use]
    pub fn unproven(address: SocketAddr, program: (u32, u32)) -> Self {
        Self::with(Arc::new(TcpNetwork), address, program, None)
    }

    fn with(
        network: Arc<dyn StreamNetwork>,
        address: SocketAddr,
        program: (u32, u32),
        proves: Option<(PeerKey, Arc<dyn Entropy>)>,
    ) -> Self {
        let around = Surroundings::new(Limits::default(), Programs::default(), POOL.clone(), Arc::default());
        Self { network, address, program, proves, around, connection: tokio::sync::Mutex::default() }
    }

    /// Address of the peer.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// True if a connection is open. One that is being made is not.
    pub async fn is_connected(&self) -> bool {
        let current = tokio::time::timeout(LOOK_TIME_MAX, self.connection.lock()).await;
        current.is_ok_and(|current| current.open.as_ref().is_some_and(|connection| connection.is_open()))
    }

    /// Calls `procedure` and decodes its results.
    ///
    /// # Errors
    /// [`CallFailure`]. The next call makes a new connection if this one broke.
    pub async fn call<R: Decode>(
        &self,
        procedure: u32,
        arguments: &(dyn Encode + Sync),
        limit: Duration,
    ) -> Result<R, CallFailure> {
        let all = async {
            let connection = self.connected().await?;
            self.exchange(&connection, procedure, arguments, limit).await
        };
        // The wait for another task that is connecting counts, too.
        tokio::time::timeout(limit, all).await.unwrap_or(Err(CallFailure::TimedOut(limit)))
    }

    async fn exchange<R: Decode>(
        &self,
        connection: &Connection,
        procedure: u32,
        arguments: &(dyn Encode + Sync),
        limit: Duration,
    ) -> Result<R, CallFailure> {
        let (program, version) = self.program;
        let mut results =
            connection.call((program, version, procedure), Credential::None, arguments, limit).await?;
        R::decode(&mut results).map_err(|_| CallFailure::Malformed)
    }

    async fn connected(&self) -> Result<Arc<Connection>, CallFailure> {
        let mut current = self.connection.lock().await;
        if let Some(connection) = current.open.as_ref().filter(|c| c.is_open()) {
            return Ok(Arc::clone(connection));
        }
        if let Some((_, failure)) = current.failed.as_ref().filter(|(at, _)| at.elapsed() < TRY_AGAIN_AFTER) {
            // Tasks that waited for this attempt share its outcome: a dead server must not delay them one
            // after the other.
            return Err(failure.clone());
        }
        let outcome = self.connect().await;
        match &outcome {
            Ok(connection) => *current = Current { open: Some(Arc::clone(connection)), failed: None },
            Err(failure) => current.failed = Some((Instant::now(), failure.clone())),
        }
        outcome
    }

    async fn connect(&self) -> Result<Arc<Connection>, CallFailure> {
        let refused = |e: &dyn std::fmt::Display| CallFailure::Connect(format!("{}: {e}", self.address));
        let stream = tokio::time::timeout(CONNECT_TIME_MAX, self.network.connect(self.address))
            .await
            .map_err(|e| refused(&e))?
            .map_err(|e| refused(&e))?;
        let connection = Connection::start(stream, self.around.clone());
        connection.set_member();
        if let Err(failure) = self.prove(&connection).await {
            connection.close();
            return Err(failure);
        }
        Ok(connection)
    }

    /// Mutual proof of the secret, without sending the secret (see [`wire::handshake`]).
    async fn prove(&self, connection: &Connection) -> Result<(), CallFailure> {
        let Some((key, entropy)) = &self.proves else { return Ok(()) };
        let nonce = entropy.bytes();
        let args = hello::Args { cluster: key.cluster, nonce };
        let refused = |why: String| CallFailure::Connect(format!("{}: {why}", self.address));
        let hello: hello::Res = self.exchange(connection, HELLO, &args, CONNECT_TIME_MAX).await?;
        let theirs = hello.map_err(|status| refused(format!("{status:?}: is it of this cluster?")))?;
        let secret = &key.secret;
        if !hello::proof_matches(&hello::server_proof(secret, &nonce, &theirs.nonce), &theirs.proof) {
            return Err(refused("does not hold this cluster's secret".into()));
        }
        let args = prove::Args { proof: hello::client_proof(secret, &nonce, &theirs.nonce) };
        let proved: prove::Res = self.exchange(connection, PROVE, &args, CONNECT_TIME_MAX).await?;
        proved.map_err(|status| refused(format!("{status:?}: do both hold the same secret?")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_peers_share_one_pool_of_buffers() {
        let peer = |port| Peer::unproven(([127, 0, 0, 1], port).into(), (1, 1));
        let (one, other) = (peer(1), peer(2));
        assert!(one.around.pool.is_same_as(&other.around.pool));
        assert!(!one.around.pool.is_same_as(&BufferPool::default()));
    }
}
