//! Heartbeat of a data server: registers with the metaservers; also looks up lengths of objects there.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use dataserver::{DataServer, ObjectLengths, Reached, Registered};
use nfs::{CallFailure, Peer};
use wire::cluster::{Procedure, register, size};
use wire::handle::{HandleKey, ObjectHandle};

use crate::servers::known_metaservers::KnownMetaservers;

/// Time limit of a metaserver's answer; after it the metaserver counts as lost.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
/// Time for which a metaserver may be away without a warning: it is starting, or is stopped and started again.
const START_TIME_MAX: Duration = Duration::from_secs(10);
/// Retry interval for a lost metaserver; a client waits for this.
const RETRY: Duration = Duration::from_millis(300);

/// Looks up lengths of objects at any metaserver, and at the next one if it does not answer.
pub(crate) struct MetaserverLengths {
    pub metaservers: Arc<KnownMetaservers>,
    pub key: HandleKey,
}

impl ObjectLengths for MetaserverLengths {
    fn length(&self, object: ObjectHandle) -> Pin<Box<dyn Future<Output = Option<u64>> + Send + '_>> {
        Box::pin(async move {
            let args = size::Args { handle: object.seal(&self.key) };
            for peer in self.metaservers.peers().values() {
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

/// Registers `server` with all known metaservers: each needs its heartbeat.
pub(crate) async fn beat(server: Arc<DataServer>, reached: Reached, metaservers: Arc<KnownMetaservers>) {
    let beats = |peer| beat_one(Arc::clone(&server), reached.clone(), peer, Arc::clone(&metaservers));
    let told = || {
        let (known, told) = (Arc::clone(&metaservers), Arc::clone(&server));
        // A task of its own: a disk that hangs must not stop the heartbeat.
        tokio::task::spawn_blocking(move || {
            known.write_down();
            write_networks(&told);
        });
    };
    metaservers.with_each(beats, told).await;
}

/// Stores the clients' networks, if they changed. Blocks on the disk.
pub(crate) fn write_networks(server: &DataServer) {
    if let Err(error) = server.client_networks().write_down() {
        tracing::warn!(
            name = server.name(), %error,
            "the exported networks cannot be written to the data server's directory: it would admit those of before after a \
             restart; they are written again every minute"
        );
    }
}

/// Why a data server is not registered.
enum NotRegistered {
    /// The metaserver does not answer, or has no leader: mostly over within seconds.
    NotNow(String),
    Refused(String),
}

/// Registers with one metaserver periodically. Logs its loss and its return once each.
async fn beat_one(
    server: Arc<DataServer>,
    reached: Reached,
    peer: Arc<Peer>,
    metaservers: Arc<KnownMetaservers>,
) {
    let mut trouble: Option<String> = None;
    let mut known = false;
    let mut away_since = Some(tokio::time::Instant::now());
    let mut additions = server.additions();
    loop {
        let outcome = register(&server, &reached, &peer, &metaservers).await;
        let pause = match outcome {
            Ok(pause) => {
                let was_away = away_since.take().is_some();
                if trouble.take().is_some() || was_away {
                    tracing::info!(name = server.name(), metaserver = %peer.address(), "registered");
                }
                known = true;
                pause
            }
            Err(not_registered) => {
                let away = away_since.get_or_insert_with(tokio::time::Instant::now).elapsed();
                let (why, may_start) = match not_registered {
                    NotRegistered::NotNow(why) => (why, true),
                    // A new node may not know all yet.
                    NotRegistered::Refused(why) => (why, !known),
                };
                if may_start && away < START_TIME_MAX {
                    tracing::debug!(metaserver = %peer.address(), "not registered now: {why}");
                    tokio::time::sleep(RETRY).await;
                    continue;
                }
                if trouble.as_ref() != Some(&why) {
                    tracing::warn!(name = server.name(), metaserver = %peer.address(), "not registered: {why}");
                }
                trouble = Some(why);
                RETRY
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = additions.next() => {} // to be registered at once
        }
    }
}

async fn register(
    server: &Arc<DataServer>,
    reached: &Reached,
    peer: &Peer,
    metaservers: &KnownMetaservers,
) -> Result<Duration, NotRegistered> {
    use NotRegistered::Refused;
    let sent =
        server.registration(reached, |obeyed| metaservers.map_version(obeyed)).await.map_err(Refused)?;
    let answer: Result<register::Res, CallFailure> =
        peer.call(Procedure::Register as u32, &sent.args, ANSWER_TIME_MAX).await;
    match answer {
        Ok(Ok(done)) => {
            match server.registered(&sent, &done).await.map_err(Refused)? {
                Registered::Yes => {}
                Registered::Again => return Box::pin(register(server, reached, peer, metaservers)).await,
                Registered::OtherProcess => {
                    return Err(Refused(
                        "another process of this data server has registered since this one: look for a machine with a copy of \
                         this one's data directory, such as a clone, and stop it there; then restart this data server"
                            .into(),
                    ));
                }
                Registered::OtherIncarnation => {
                    return Err(Refused(format!(
                        "it was restored from a backup (incarnation {}), and the files here belong to the group of before; if \
                         this data server is to serve the restored one from now on, run heorot ds adopt here; until then \
                         nothing here is touched",
                        done.epoch
                    )));
                }
            }
            metaservers.learn(done.incarnation, done.map_version, &done.metaservers);
            Ok(Duration::from_millis(u64::from(done.heartbeat_ms).max(100)))
        }
        Ok(Err(wire::cluster::Status::Delay)) => {
            Err(NotRegistered::NotNow("it has no leader or no room for the change now".into()))
        }
        Ok(Err(status)) => Err(Refused(refusal(server, status))),
        Err(error) => Err(NotRegistered::NotNow(error.to_string())),
    }
}

/// What a metaserver's refusal means, and what to do.
fn refusal(server: &DataServer, status: wire::cluster::Status) -> String {
    use wire::cluster::Status;
    match status {
        Status::NotFound => {
            format!("it was removed from the cluster; heorot node undrain {} takes it back", server.name())
        }
        Status::Invalid => {
            "another data server that lives has a target of ours; the metaserver's log names it".into()
        }
        Status::AddressInUse => {
            "its `service_address` is another server's; the metaserver's log names it".into()
        }
        Status::OtherNameSpace => {
            "it keeps another name space than the one whose files are here: bring back that metaserver's data directory, restore a \
             backup of it, or have it join the metaservers that still have it; nothing here is touched"
                .into()
        }
        status => format!("the metaserver answers {status:?}"),
    }
}
