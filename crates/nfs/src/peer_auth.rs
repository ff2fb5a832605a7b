//! Peer authentication, the server's side of [`wire::handshake`]: which connections are from servers of the
//! cluster.
//!
//! ```text
//! stranger ──HELLO──▶ greeted: both nonces ──PROVE, right──▶ proven
//!    ▲                      │ PROVE, wrong
//!    └──────────────────────┘           any HELLO begins again; the end of the connection forgets all
//! ```

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use host::{Entropy, Locked};
use wire::handshake::{Nonce, Status, client_proof, hello, proof_matches, prove, server_proof};

use crate::{Connection, ConnectionId, PeerKey};

/// How far a connection has come.
#[derive(Debug, Clone, Copy)]
enum Stage {
    Stranger,
    Greeted { client: Nonce, server: Nonce },
    Proven,
}

type Stages = HashMap<ConnectionId, Stage>;

/// Knows which connections are from servers of our own cluster.
pub struct PeerAuth {
    key: PeerKey,
    entropy: Arc<dyn Entropy>,
    stages: Arc<Mutex<Stages>>,
    /// Proofs that were wrong since the start.
    wrong_proofs: AtomicU64,
}

impl PeerAuth {
    /// Authentication by `key`, which all servers of the cluster hold.
    #[must_use]
    pub fn new(key: PeerKey, entropy: Arc<dyn Entropy>) -> Self {
        Self { key, entropy, stages: Arc::default(), wrong_proofs: AtomicU64::new(0) }
    }

    /// HELLO: both ends have a nonce then, and the caller knows that we hold the secret.
    ///
    /// # Errors
    /// [`Status::WrongCluster`] to a caller of another cluster: it learns nothing of ours.
    pub fn hello(&self, connection: &Arc<Connection>, args: &hello::Args) -> hello::Res {
        if args.cluster != self.key.cluster {
            return Err(Status::WrongCluster);
        }
        let (client, server) = (args.nonce, self.entropy.bytes());
        self.greet(connection, Stage::Greeted { client, server })?;
        Ok(hello::ResOk { nonce: server, proof: server_proof(&self.key.secret, &client, &server) })
    }

    /// PROVE: from its success on, [`PeerAuth::is_proven`].
    ///
    /// # Errors
    /// [`Status::NotProven`] without a HELLO before, or when the proof is wrong. There is one try for each
    /// HELLO.
    pub fn prove(&self, connection: &Arc<Connection>, args: &prove::Args) -> prove::Res {
        let mut stages = self.stages.locked();
        let stage = stages.get_mut(&connection.id()).ok_or(Status::NotProven)?;
        let Stage::Greeted { client, server } = std::mem::replace(stage, Stage::Stranger) else {
            return Err(Status::NotProven);
        };
        if !proof_matches(&client_proof(&self.key.secret, &client, &server), &args.proof) {
            let count = self.wrong_proofs.fetch_add(1, Ordering::Relaxed) + 1;
            // Each doubling: strangers could fill the disk with a line for each.
            if count.is_power_of_two() {
                tracing::warn!(
                    peer = %connection.peer(), count,
                    "refused a connection: wrong proof of the cluster's secret. A server of this cluster needs the same secret \
                     file; if it is none, keep it from this port"
                );
            }
            return Err(Status::NotProven);
        }
        *stage = Stage::Proven;
        connection.set_member();
        Ok(())
    }

    /// Whether the caller has shown that it is one of ours.
    #[must_use]
    pub fn is_proven(&self, connection: ConnectionId) -> bool {
        matches!(self.stages.locked().get(&connection), Some(Stage::Proven))
    }

    /// Notes the stage, and sees to it that it is forgotten with the connection.
    fn greet(&self, connection: &Arc<Connection>, stage: Stage) -> Result<(), Status> {
        let id = connection.id();
        let known = self.stages.locked().insert(id, stage).is_some();
        if !known {
            let (connection, stages) = (Arc::clone(connection), Arc::clone(&self.stages));
            tokio::spawn(async move {
                connection.ended().await;
                stages.locked().remove(&id);
            });
        }
        Ok(())
    }
}
