//! Another server of our cluster: a connection that is made when it is needed, proved on both sides, and made
//! again after it broke.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use host::{BufferPool, Entropy};
use rustix::net::sockopt;
use tokio::net::TcpStream;
use tokio::time::Instant;
use wire::handshake::{Procedure, hello, prove};
use wire::rpc::Credential;
use wire::xdr::{Decode, Encode};

use crate::connection::Surroundings;
use crate::limits::Budgets;
use crate::{CallFailure, Connection, Limits, Programs};

/// After a failed try nobody tries again for this long.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(300);
// The same numbers in every private program.
const HELLO: u32 = Procedure::Hello as u32;
const PROVE: u32 = Procedure::Prove as u32;
/// A connection within a cluster is made at once or not at all.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(3);

/// A server that lost its power or its link says nothing, and a call to it would be waited for until its own
/// limit, or for ever. Its kernel is asked after so much silence, so often; and what is not acknowledged for
/// so long (asking included) ends the connection. Longer than a network's own troubles, and no process has to
/// run for an answer.
const ASK_AFTER: Duration = Duration::from_secs(3);
const ASK_EVERY: Duration = Duration::from_secs(1);
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(6);

/// Buffers for what peers answer: one pool for all peers of the process, whose bound is for all of them
/// together. With one for each, a hundred data servers would keep 13 GiB.
static POOL: LazyLock<BufferPool> = LazyLock::new(BufferPool::default);

/// What both ends of a private connection hold.
#[derive(Clone)]
pub struct PeerKey {
    /// The cluster's id.
    pub cluster: [u8; 16],
    /// The secret that each proves to hold.
    pub secret: [u8; 32],
}

impl std::fmt::Debug for PeerKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PeerKey(secret)")
    }
}

/// One program of one other server.
pub struct Peer {
    address: SocketAddr,
    program: (u32, u32),
    /// What is proved to hold when the connection is made; none: nothing.
    proves: Option<(PeerKey, Arc<dyn Entropy>)>,
    around: Surroundings,
    connection: tokio::sync::Mutex<Current>,
}

/// The connection, or why there is none.
#[derive(Default)]
struct Current {
    open: Option<Arc<Connection>>,
    failed: Option<(Instant, CallFailure)>,
}

impl Peer {
    /// The program (number, version) at `address`. Nothing is sent yet.
    #[must_use]
    pub fn new(address: SocketAddr, program: (u32, u32), key: PeerKey, entropy: Arc<dyn Entropy>) -> Self {
        Self::with(address, program, Some((key, entropy)))
    }

    /// The same for who is not one of the cluster yet: nothing is proved.
    #[must_use]
    pub fn of_a_stranger(address: SocketAddr, program: (u32, u32)) -> Self {
        Self::with(address, program, None)
    }

    fn with(address: SocketAddr, program: (u32, u32), proves: Option<(PeerKey, Arc<dyn Entropy>)>) -> Self {
        let limits = Limits::default();
        let around = Surroundings {
            budgets: Budgets::new(&limits),
            limits,
            programs: Programs::default(),
            pool: POOL.clone(),
            metrics: Arc::default(),
        };
        Self { address, program, proves, around, connection: tokio::sync::Mutex::default() }
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
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
        // The wait for others who are trying to connect counts, too.
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
            // Those who waited for this try share its outcome: one dead server must not hold them up one by
            // one.
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
        let stream = tokio::time::timeout(CONNECT_TIME_MAX, TcpStream::connect(self.address))
            .await
            .map_err(|e| refused(&e))?
            .map_err(|e| refused(&e))?;
        notice_silence(&stream).map_err(|e| refused(&e))?;
        let connection = Connection::start(stream, self.around.clone()).map_err(|e| refused(&e))?;
        connection.set_member();
        if let Err(failure) = self.prove(&connection).await {
            connection.close();
            return Err(failure);
        }
        Ok(connection)
    }

    /// Both ends show that they hold the secret, without showing it.
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

/// Has the kernel end a connection whose other end is gone without a word.
fn notice_silence(stream: &TcpStream) -> std::io::Result<()> {
    sockopt::set_tcp_keepidle(stream, ASK_AFTER)?;
    sockopt::set_tcp_keepintvl(stream, ASK_EVERY)?;
    sockopt::set_tcp_user_timeout(stream, UNACKNOWLEDGED_MAX.as_millis() as u32)?;
    sockopt::set_socket_keepalive(stream, true)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_peers_share_one_pool_of_buffers() {
        let peer = |port| Peer::of_a_stranger(([127, 0, 0, 1], port).into(), (1, 1));
        let (one, other) = (peer(1), peer(2));
        assert!(one.around.pool.is_same_as(&other.around.pool));
        assert!(!one.around.pool.is_same_as(&BufferPool::default()));
    }

    /// What the kernel then does cannot be had without a network that can be cut.
    #[tokio::test]
    async fn a_server_that_is_gone_without_a_word_is_noticed_within_seconds() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        notice_silence(&stream).unwrap();
        let keepalive = sockopt::socket_keepalive(&stream).unwrap();
        let silence_ms = sockopt::tcp_user_timeout(&stream).unwrap();
        let asking_ms =
            (sockopt::tcp_keepidle(&stream).unwrap() + sockopt::tcp_keepintvl(&stream).unwrap()).as_millis();
        assert!(keepalive && (1000..10_000).contains(&silence_ms));
        assert!(
            asking_ms < u128::from(silence_ms),
            "it has the time to answer: {asking_ms} of {silence_ms} ms"
        );
    }
}
