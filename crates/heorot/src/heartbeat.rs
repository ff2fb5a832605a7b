//! A data server tells the metaserver that it lives, and asks it how long objects are.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dataserver::{DataServer, ObjectLengths};
use nfs::{CallFailure, Peer};
use wire::cluster::{Procedure, register, size};
use wire::handle::{HandleKey, ObjectHandle};

/// A metaserver that does not answer a small question in this time is taken for lost until it does.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
/// Between two tries to reach a lost one: a client waits for this.
const RETRY: Duration = Duration::from_millis(500);

/// Asks a metaserver how long an object is: any, and the next one if it does not answer.
pub(crate) struct MetaserverLengths {
    pub peers: Vec<Arc<Peer>>,
    pub key: HandleKey,
}

impl ObjectLengths for MetaserverLengths {
    fn length(&self, object: ObjectHandle) -> Pin<Box<dyn Future<Output = Option<u64>> + Send + '_>> {
        Box::pin(async move {
            let args = size::Args { handle: object.seal(&self.key) };
            for peer in &self.peers {
                let answer: Result<size::Res, CallFailure> =
                    peer.call(Procedure::Size as u32, &args, ANSWER_TIME_MAX).await;
                match answer {
                    Ok(Ok(size)) => return Some(size.len),
                    Ok(Err(status)) => {
                        tracing::debug!(?status, "the metaservers do not know the object's length");
                        return None;
                    }
                    Err(error) => {
                        let metaserver = peer.address();
                        tracing::debug!(%metaserver, %error, "cannot be asked for an object's length");
                    }
                }
            }
            None
        })
    }
}

/// Registers `server`, reached at `advertise`, with one metaserver, again and again: each has to know that it lives.
/// Losing the metaserver, and finding it again, is logged once.
pub(crate) async fn beat(server: Arc<DataServer>, advertise: SocketAddr, peer: Arc<Peer>) {
    let mut trouble: Option<String> = None;
    let mut known = false;
    loop {
        let outcome = register(&server, advertise, &peer).await;
        let pause = match outcome {
            Ok(pause) => {
                if trouble.take().is_some() || !known {
                    tracing::info!(name = server.name(), metaserver = %peer.address(), "registered");
                }
                known = true;
                pause
            }
            Err(why) => {
                if trouble.as_ref() != Some(&why) {
                    tracing::warn!(name = server.name(), metaserver = %peer.address(), "not registered: {why}");
                }
                trouble = Some(why);
                RETRY
            }
        };
        tokio::time::sleep(pause).await;
    }
}

async fn register(server: &Arc<DataServer>, advertise: SocketAddr, peer: &Peer) -> Result<Duration, String> {
    // statvfs of a hung disk hangs, and must not hang the others' thread.
    let asked = Arc::clone(server);
    let targets = tokio::task::spawn_blocking(move || asked.space()).await.map_err(|e| e.to_string())?;
    let args = register::Args {
        server: server.id(),
        name: Bytes::copy_from_slice(server.name().as_bytes()),
        addresses: vec![Bytes::from(advertise.to_string())],
        targets,
    };
    let answer: Result<register::Res, CallFailure> =
        peer.call(Procedure::Register as u32, &args, ANSWER_TIME_MAX).await;
    match answer {
        Ok(Ok(done)) => Ok(Duration::from_millis(u64::from(done.heartbeat_ms).max(100))),
        Ok(Err(wire::cluster::Status::Invalid)) => {
            Err("another data server that lives has a target of ours; the metaserver's log names it".into())
        }
        Ok(Err(status)) => Err(format!("the metaserver answers {status:?}")),
        Err(error) => Err(error.to_string()),
    }
}
