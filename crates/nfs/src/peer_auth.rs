//! Peer authentication, server side of [`wire::handshake`]: marks connections from servers of the cluster.
//!
//! ```text
//! stranger ──HELLO──▶ greeted: both nonces ──PROVE, right──▶ proven
//!    ▲                        │ PROVE, wrong
//!    └────────────────────────┘         any HELLO begins again; the end of the connection forgets all
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use host::{Entropy, Repeated};
use parking_lot::Mutex;
use wire::handshake::{Nonce, Status, client_proof, hello, proof_matches, prove, server_proof};

use crate::{Connection, ConnectionId, PeerKey};

/// Authentication stage of a connection.
#[derive(Debug, Clone, Copy)]
enum Stage {
    Stranger,
    Greeted { client: Nonce, server: Nonce },
    Proven,
}

type Stages = HashMap<ConnectionId, Stage>;

/// Authentication stages of all connections of a server.
pub struct PeerAuth {
    key: PeerKey,
    entropy: Arc<dyn Entropy>,
    stages: Arc<Mutex<Stages>>,
    /// Wrong proofs since the start.
    wrong_proofs: Repeated,
}

impl PeerAuth {
    /// Authentication with `key`, which all servers of the cluster hold.
    #[must_use]
    pub fn new(key: PeerKey, entropy: Arc<dyn Entropy>) -> Self {
        Self { key, entropy, stages: Arc::default(), wrong_proofs: Repeated::new() }
    }

    /// HELLO: exchanges nonces; its reply proves that this server holds the secret.
    ///
    /// # Errors
    /// [`Status::WrongCluster`] to a caller of another cluster; the status reveals nothing else.
    pub fn hello(&self, connection: &Arc<Connection>, args: &hello::Args) -> hello::Res {
        if args.cluster != self.key.cluster {
            return Err(Status::WrongCluster);
        }
        let (client, server) = (args.nonce, self.entropy.bytes());
        self.greet(connection, Stage::Greeted { client, server })?;
        Ok(hello::ResOk { nonce: server, proof: server_proof(&self.key.secret, &client, &server) })
    }

    /// PROVE: checks the caller's proof. After success, [`PeerAuth::is_proven`].
    ///
    /// # Errors
    /// [`Status::NotProven`] without a HELLO before, or with a wrong proof. Each HELLO allows one attempt.
    pub fn prove(&self, connection: &Arc<Connection>, args: &prove::Args) -> prove::Res {
        let mut stages = self.stages.lock();
        let stage = stages.get_mut(&connection.id()).ok_or(Status::NotProven)?;
        let Stage::Greeted { client, server } = std::mem::replace(stage, Stage::Stranger) else {
            return Err(Status::NotProven);
        };
        if !proof_matches(&client_proof(&self.key.secret, &client, &server), &args.proof) {
            // One line each would let attackers fill the disk.
            if let Some(count) = self.wrong_proofs.count() {
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

    /// True if the connection is from a server of the cluster.
    #[must_use]
    pub fn is_proven(&self, connection: ConnectionId) -> bool {
        matches!(self.stages.lock().get(&connection), Some(Stage::Proven))
    }

    /// Stores the stage, and removes it when the connection ends.
    fn greet(&self, connection: &Arc<Connection>, stage: Stage) -> Result<(), Status> {
        let id = connection.id();
        let known = self.stages.lock().insert(id, stage).is_some();
        if !known {
            let (connection, stages) = (Arc::clone(connection), Arc::clone(&self.stages));
            tokio::spawn(async move {
                connection.ended().await;
                stages.lock().remove(&id);
            });
        }
        Ok(())
    }
}
