//! Join client: joins this machine to a cluster through a metaserver, or only checks that it could (preflight
//! check).

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use host::{Entropy, SystemEntropy};
use nfs::{CallFailure, Peer};
use wire::join::{
    self, Nonce, OWN_ID, Procedure, Token, Word, client_proof, enter, hello, proof_matches, seal,
    server_proof,
};
use wire::rpc::Rejection;

use crate::node::secret::Secret;

/// Time limit of an answer; a live metaserver answers at once.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

/// Facts about a machine, sent before any proof.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JoinRequest {
    pub protocol: u32,
    /// Milliseconds since 1970.
    pub clock_ms: u64,
}

impl JoinRequest {
    /// Request of this machine, now.
    pub(crate) fn now() -> Self {
        Self { protocol: join::PROTOCOL, clock_ms: clock_ms() }
    }
}

/// Clock of this machine, in milliseconds since 1970.
fn clock_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Error of a join. One line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JoinError {
    /// No answer, or not from a metaserver.
    #[error("{0}")]
    NoAnswer(String),
    /// Refusal by the metaserver: an operator has to act first.
    #[error("{0}")]
    Refused(String),
}

/// Results of a join.
pub(crate) struct JoinAnswer {
    pub secret: [u8; 32],
    /// Addresses of the metaservers.
    pub metaservers: Vec<String>,
}

/// Connection to a metaserver that has proven in HELLO that it is of the token's cluster.
pub(crate) struct JoinClient {
    peer: Peer,
    key: [u8; 32],
    client: Nonce,
    server: Nonce,
}

/// Sends HELLO to the metaserver at `address`.
pub(crate) async fn hello(
    address: SocketAddr,
    token: &Token,
    request: JoinRequest,
) -> Result<JoinClient, JoinError> {
    let peer = Peer::unproven(address, (join::PROGRAM, join::VERSION));
    let nonce = SystemEntropy.bytes();
    let args = hello::Args {
        protocol: request.protocol,
        version: Word(env!("CARGO_PKG_VERSION").into()),
        cluster: token.cluster,
        id: token.id,
        expires: token.expires,
        clock_ms: request.clock_ms,
        nonce,
    };
    let answer = peer.call(Procedure::Hello as u32, &args, ANSWER_TIME_MAX).await;
    match answer.map_err(|failure| no_answer(address, &failure))? {
        hello::Res::Refused(refusal) => Err(refused(&refusal)),
        hello::Res::Welcome(theirs) => {
            let key = token.proof_key();
            if !proof_matches(&server_proof(&key, &nonce, &theirs.nonce), &theirs.proof) {
                return Err(JoinError::Refused(format!(
                    "{address} is not of the cluster that the join token is of, although it says so"
                )));
            }
            Ok(JoinClient { peer, key, client: nonce, server: theirs.nonce })
        }
    }
}

/// Preflight check of a machine that is in the cluster already: `Ok` also if the metaserver does not answer.
///
/// # Errors
/// The metaserver's line, which tells the operator what to do.
pub(crate) async fn preflight_check(metaserver: SocketAddr, secret: &Secret) -> Result<(), String> {
    // A holder of the secret can make its own token.
    match hello(metaserver, &secret.token(OWN_ID, u64::MAX), JoinRequest::now()).await {
        Err(JoinError::Refused(why)) => Err(why),
        Err(JoinError::NoAnswer(why)) => {
            tracing::debug!(%metaserver, %why, "cannot be asked");
            Ok(())
        }
        Ok(_) => Ok(()),
    }
}

impl JoinClient {
    /// Sends ENTER with the machine's name and addresses. `ticket`: random, and the same in a retry.
    pub(crate) async fn enter(
        &self,
        ticket: Nonce,
        name: &str,
        consensus: Option<SocketAddr>,
        data: Option<SocketAddr>,
    ) -> Result<JoinAnswer, JoinError> {
        let text =
            |address: Option<SocketAddr>| Word(address.map_or_else(String::new, |a| a.to_string()).into());
        let args = enter::Args {
            proof: client_proof(&self.key, &self.client, &self.server),
            ticket,
            name: Word(name.to_owned().into()),
            consensus: text(consensus),
            data: text(data),
        };
        let address = self.peer.address();
        let answer = self.peer.call(Procedure::Enter as u32, &args, ANSWER_TIME_MAX).await;
        match answer.map_err(|failure| no_answer(address, &failure))? {
            enter::Res::Refused(refusal) => Err(refused(&refusal)),
            enter::Res::Entered(told) => {
                let secret = seal::open(&self.key, &self.client, &self.server, &told.sealed, &told.tag);
                let strange = || JoinError::NoAnswer(format!("{address}: its answer was changed on the way"));
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                Ok(JoinAnswer {
                    secret: secret.ok_or_else(strange)?,
                    metaservers: told.metaservers.iter().map(|address| text(address)).collect(),
                })
            }
        }
    }
}

fn refused(refusal: &join::Refusal) -> JoinError {
    JoinError::Refused(String::from_utf8_lossy(&refusal.line).into_owned())
}

fn no_answer(address: SocketAddr, failure: &CallFailure) -> JoinError {
    JoinError::NoAnswer(match failure {
        CallFailure::Rejected(Rejection::ProgramUnavailable) => format!(
            "{address} does not take machines in; name a metaserver's `consensus` address, with port {} unless its \
             mds.toml says otherwise",
            crate::node::dir::CONSENSUS_PORT
        ),
        CallFailure::Rejected(Rejection::ProgramMismatch { .. }) => format!(
            "{address} runs another version of heorot, which takes machines in by other rules; install the cluster's \
             version"
        ),
        CallFailure::Connect(why) => format!(
            "{why}; does heorot run there, is that a metaserver's address, and does no firewall stand before it?"
        ),
        CallFailure::Closed | CallFailure::Malformed | CallFailure::Rejected(_) => format!(
            "{address} does not answer as heorot does ({failure}); name a metaserver's `consensus` address"
        ),
        CallFailure::TimedOut(_) => {
            format!("{address}: {failure}; does it hang, or does something else listen there?")
        }
    })
}

#[cfg(test)]
mod tests {
    use cluster::{Begin, Rules};

    use super::*;
    use crate::config::mds::GroupConfig;
    use crate::node::data_dir::DataDir;
    use crate::servers::mds::{self, MdsSettings, RunningMds};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_wrong_clock_an_old_version_and_a_wrong_token_are_found_before_anything_is_given() {
        let dir = tempfile::tempdir().unwrap();
        let secret = Secret::create(&dir.path().join("secret"), &SystemEntropy).unwrap();
        let [.., high, low] = std::process::id().to_be_bytes();
        let at = |port| SocketAddr::from(([127, high | 1, low, 251], port));
        let settings = MdsSettings {
            listen: at(2049),
            listen_setting: "listen",
            begin: Begin::for_everybody(Rules::SAFE),
            reserve_bytes: 0,
            metadata_memory_bytes: 16 << 20,
            group: Some(GroupConfig { name: "ash".into(), consensus: at(2052), join: None, learner: false }),
        };
        let opened = DataDir::open(&dir.path().join("mds"), mds::KIND).unwrap();
        let running = RunningMds::start(settings, opened, &secret).await.map_err(|e| e.to_string()).unwrap();

        let now = JoinRequest::now();
        let (id, expires) =
            running.metaserver.cluster().make_join_token(Duration::from_secs(60)).await.unwrap();
        let token = secret.token(id, expires);
        let refused = async |token: &Token, request: JoinRequest| match hello(at(2052), token, request).await
        {
            Err(JoinError::Refused(line)) => line,
            Err(JoinError::NoAnswer(why)) => panic!("{why}"),
            Ok(_) => panic!("let in"),
        };
        let hour = 3600 * 1000;
        let line = refused(&token, JoinRequest { clock_ms: now.clock_ms - hour, ..now }).await;
        assert!(
            line.starts_with("the clock of this machine is 1 h 0 min behind the cluster's; set it"),
            "{line}"
        );
        let line = refused(&token, JoinRequest { protocol: 0, ..now }).await;
        assert!(line.contains("speaks protocol 0, and heorot "), "{line}");
        let forged = Token::new(secret.cluster(), &[7; 32], id, expires);
        let line = refused(&forged, now).await;
        assert!(line.contains("is not of the cluster that the join token is of"), "{line}");

        let client = hello(at(2052), &token, now).await.unwrap();
        let enter = async |client: &JoinClient, ticket, name| {
            client.enter([ticket; 32], name, Some(at(3052)), None).await
        };
        let no = async |client: &JoinClient, ticket, name| {
            enter(client, ticket, name).await.map(|_| ()).unwrap_err().to_string()
        };
        let taken = no(&client, 1, "ash").await;
        assert!(taken.starts_with("there is a metaserver \"ash\" already"), "{taken}");
        let told = enter(&client, 1, "elm").await.unwrap();
        assert_eq!(told.secret, secret.bytes());
        assert_eq!(told.metaservers, [at(2049).to_string()]);
        // The machine lost the answer and retries; another machine has the token, too.
        enter(&hello(at(2052), &token, now).await.unwrap(), 1, "elm").await.unwrap();
        let late = no(&hello(at(2052), &token, now).await.unwrap(), 2, "elm").await;
        assert!(late.starts_with("the join token has let \"elm\" in, and is good for one machine"), "{late}");
        let (id, expires) =
            running.metaserver.cluster().make_join_token(Duration::from_secs(60)).await.unwrap();
        running.metaserver.cluster().revoke_join_token(id).await.unwrap();
        let revoked = hello(at(2052), &secret.token(id, expires), now).await.unwrap();
        assert!(no(&revoked, 3, "oak").await.starts_with("the join token was revoked, or has ended"));
        // A member can make tokens itself, but no machine can join with them.
        for id in [OWN_ID, 77] {
            let own = hello(at(2052), &secret.token(id, expires), now).await.unwrap();
            assert!(no(&own, 4, "oak").await.contains("join token") || id == OWN_ID);
        }
        assert_eq!(preflight_check(at(2052), &secret).await, Ok(()));
        assert_eq!(preflight_check(at(9), &secret).await, Ok(()), "nobody is there to find anything");
        running.stop().await;
    }
}
