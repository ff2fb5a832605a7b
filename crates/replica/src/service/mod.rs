//! Service of this member: its answers to the calls of other members.

pub(crate) mod compare;
pub(crate) mod scrub;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bytes::Bytes;
use host::Files;
use namespace::Reply;
use openraft::Raft;
use openraft::errors::{ClientWriteError, LinearizableReadError, RaftError};
use openraft::raft::ReadPolicy;
use openraft::storage::Snapshot as RaftSnapshot;
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, oneshot};

use crate::consensus::liveness::Liveness;
use crate::consensus::removal::REMOVED;
use crate::environment::TimeOfDay;
use crate::log::Log;
use crate::read::read_lease::{ReadLease, ReadLeaseGrants};
use crate::space::Space;
use crate::state::digest::DigestHistory;
use crate::state::install::Installation;
use crate::state::integrity::Integrity;
use crate::state::machine::{Machine, Observer};
use crate::state::snapshot::Spool;
use crate::transport::group_transport;
use crate::transport::{self, Consensus, Request, Transport};
use crate::types::{Change, Member, MemberRole, NodeId, SnapshotId, Types};
use host::watch;

/// Outcome of a proposal at a leader.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum ProposeOutcome {
    /// Applied by a member once it has applied `index`.
    Done { reply: Reply, index: u64 },
    /// Nothing was done: another member leads.
    NotLeader(Option<(NodeId, Member)>),
    /// Leadership was lost meanwhile. The command may have been applied, or may still be.
    Unknown,
    /// The disk is full: nothing was done.
    NoSpace,
    /// The leader's log or store failed.
    Failed(String),
}

/// Answer to a request for a read index.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum ReadIndex {
    /// Index after the last entry that the read must see. With a read lease further reads need not ask for a
    /// while.
    Next { next: u64, lease: Option<ReadLease> },
    /// This member does not lead, or cannot tell.
    NotLeader,
}

/// Reason that a membership change failed.
#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error)]
pub(crate) enum ChangeError {
    /// Another member leads.
    #[error("another member leads")]
    NotLeader(Option<Member>),
    /// The change failed; a retry may succeed.
    #[error("{0}")]
    Failed(String),
    /// The change fails until an operator mends the cause: a retry is useless.
    #[error("{0}")]
    Permanent(String),
}

/// Consensus of this member, as other members call it.
pub(crate) struct Service {
    pub id: NodeId,
    pub transport: Arc<dyn Transport>,
    /// Set when this member is told that it was removed.
    pub removed: Arc<watch::Sender<bool>>,
    pub raft: Raft<Types, Machine>,
    pub log: Log,
    pub grants: Arc<ReadLeaseGrants>,
    pub files: Arc<dyn Files>,
    pub dir: PathBuf,
    pub space: Arc<Space>,
    /// True if this member leads and no member has free space: commands that need space are refused.
    pub no_member_has_capacity: AtomicBool,
    pub spool: Mutex<Option<(SnapshotId, Spool)>>,
    pub installation: Mutex<Option<Installation>>,
    pub observer: Arc<dyn Observer>,
    /// Lock of membership changes: one at a time.
    pub reconfiguring: Mutex<()>,
    pub liveness: Arc<Liveness>,
    pub history: Arc<DigestHistory>,
    pub integrity: Arc<Integrity>,
    pub time: TimeOfDay,
}

impl Service {
    /// Answers a call of another member; the error is for the caller's log.
    pub(crate) async fn serve(self: &Arc<Self>, body: &[u8]) -> Result<Bytes, String> {
        let body = group_transport::opened(body, &self.integrity)?;
        let request = transport::decode(body).inspect_err(|why| {
            // The members that agree on this entry would count one that cannot apply it.
            if transport::has_entries(body, self.id) {
                self.integrity.report_newer_version(why);
            }
        })?;
        Ok(match request {
            Request::Consensus(to, message) if to == self.id => self.consensus(message).await?,
            Request::Consensus(to, _) => {
                return Err(format!("this is member {:016x}, not {to:016x}", self.id));
            }
            Request::Propose(change) => transport::encode(&self.propose_for(change).await),
            Request::Read(by) => transport::encode(&self.read_index(by).await?),
            Request::Join(id, member) => {
                transport::encode(&self.handle_join(id, member, MemberRole::Voter).await)
            }
            Request::JoinAsLearner(id, member) => {
                transport::encode(&self.handle_join(id, member, MemberRole::Learner).await)
            }
            Request::Change { change, force } => transport::encode(&self.change(change, force).await),
            Request::Removed(id) => {
                if id == self.id {
                    self.removed.set(true);
                }
                transport::encode(&())
            }
            Request::WasRemoved { id, at } => transport::encode(&self.was_removed(id, at)),
            Request::Ask(question) => self.observer.answer_peer(question).await,
            Request::Identity if *self.removed.get() => return Err(REMOVED.into()),
            Request::Identity => transport::encode(&self.id),
            Request::HasCapacity => transport::encode(&self.has_capacity()),
            Request::Digest => transport::encode(&self.history.last()),
            Request::DigestAt(next) => transport::encode(&self.history.at(next)),
        })
    }

    async fn consensus(&self, message: Consensus) -> Result<Bytes, String> {
        let said = |e: &dyn std::fmt::Display| e.to_string();
        Ok(match message {
            Consensus::Append(rpc) => {
                self.liveness.note_leader_message();
                transport::encode(&self.raft.append_entries(rpc).await.map_err(|e| said(&e))?)
            }
            Consensus::Vote(rpc) => transport::encode(&self.raft.vote(rpc).await.map_err(|e| said(&e))?),
            Consensus::PreVote(rpc) => {
                transport::encode(&self.raft.pre_vote(rpc).await.map_err(|e| said(&e))?)
            }
            Consensus::TransferLeader(rpc) => {
                transport::encode(&self.raft.handle_transfer_leader(rpc).await.map_err(|e| said(&e))?)
            }
            Consensus::SnapshotBegin(id) => {
                let mut spool = self.spool.lock().await;
                if spool.as_ref().is_some_and(|(of, _)| of.0 > id.0) {
                    return Err("a later leader's snapshot is on its way".into());
                }
                *spool = Some((id, Spool::begin(&self.files, &self.dir).map_err(|e| said(&e))?));
                transport::encode(&())
            }
            Consensus::SnapshotChunk { id, number, chunk } => {
                let mut spool = self.spool.lock().await;
                let spool = spool.as_mut().filter(|(of, _)| *of == id);
                let (_, spool) = spool.ok_or("a chunk of a snapshot that did not begin")?;
                transport::encode(&spool.append_chunk(number, &chunk).map_err(|e| said(&e))?)
            }
            Consensus::SnapshotEnd { vote, meta, pairs } => {
                let id = (vote, meta.last_log_id);
                let spool = self.spool.lock().await.take_if(|(of, _)| *of == id);
                let (_, spool) = spool.ok_or("the end of a snapshot that did not begin")?;
                let snapshot = spool.finish(pairs).map_err(|e| said(&e))?;
                tracing::info!(pairs, upto = ?meta.last_log_id.map(|id| id.index), "installing a received snapshot");
                let (raft, snapshot) = (self.raft.clone(), RaftSnapshot { meta, snapshot });
                let install = async move {
                    raft.install_full_snapshot(vote, snapshot).await.map_err(|e| e.to_string())
                };
                *self.installation.lock().await = Some(Installation::begin(id, install));
                transport::encode(&())
            }
            Consensus::SnapshotInstallState(id) => {
                let placed = Installation::state(self.installation.lock().await.as_ref(), id);
                transport::encode(&placed.await)
            }
        })
    }

    /// Stamps a forwarded command with the time of this member, which leads: clocks differ.
    fn stamped(&self, mut change: Change) -> Change {
        Arc::make_mut(&mut change.0).stamp.time = (self.time)();
        change
    }

    /// Orders a command, if this member leads.
    pub(crate) async fn propose(&self, change: Change) -> ProposeOutcome {
        let needs_space = crate::space::needs_space(&change.0.command);
        if needs_space && self.raft.is_leader() && self.is_short() {
            return match self.no_member_has_capacity.load(Ordering::Relaxed) {
                true => ProposeOutcome::NoSpace,
                false => ProposeOutcome::NotLeader(None), // another member will lead soon
            };
        }
        let began = Instant::now();
        match self.raft.client_write(change).await {
            Ok(done) => {
                self.log.metrics.commit.observe(began.elapsed().as_secs_f64());
                ProposeOutcome::Done { reply: done.data, index: done.log_id.index }
            }
            Err(RaftError::APIError(ClientWriteError::ForwardToLeader(to))) => {
                ProposeOutcome::NotLeader(to.leader_id.zip(to.leader_node))
            }
            Err(RaftError::APIError(_)) => ProposeOutcome::Unknown,
            Err(RaftError::Fatal(fatal)) => ProposeOutcome::Failed(fatal.to_string()),
        }
    }

    /// Orders a command of another member, once the observer has seen it.
    async fn propose_for(self: &Arc<Self>, change: Change) -> ProposeOutcome {
        let Some(before) = self.observer.before_order(&change.0.command) else {
            return self.propose(self.stamped(change)).await;
        };
        // In a task of its own: if the caller goes away, a command that is being ordered is ordered all the same, and the
        // guard lasts as long.
        let service = Arc::clone(self);
        let (here, gone) = oneshot::channel::<()>();
        let ordered = tokio::spawn(async move {
            let guard = tokio::select! {
                biased;
                guard = before => guard,
                _ = gone => return ProposeOutcome::Unknown,
            };
            let outcome = service.propose(service.stamped(change)).await;
            drop(guard);
            outcome
        });
        let outcome = ordered.await;
        drop(here);
        outcome.unwrap_or(ProposeOutcome::Unknown)
    }

    /// Confirms that this member still leads, and returns the index that a read by member `by` must see.
    pub(crate) async fn read_index(&self, by: NodeId) -> Result<ReadIndex, String> {
        if !self.raft.is_leader() {
            return Ok(ReadIndex::NotLeader);
        }
        let leader = self.log.reach().0;
        // Before the log is looked at: later entries wait for the holder.
        let is_given = self.grants.grant(by);
        let logged = self.log.next();
        match self.raft.get_read_log_id(ReadPolicy::ReadIndex).await {
            Ok((at, _)) => {
                let next = at.index() + 1;
                let leader = leader.filter(|leader| is_given && self.log.reach().0 == Some(*leader));
                let from = if by == self.id { next } else { next.max(logged) };
                Ok(ReadIndex::Next { next, lease: leader.map(|leader| ReadLease { leader, from }) })
            }
            Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(_))) => Ok(ReadIndex::NotLeader),
            Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(e))) => Err(e.to_string()),
            Err(RaftError::Fatal(fatal)) => Err(fatal.to_string()),
        }
    }

    pub(crate) fn leader(&self) -> Option<Member> {
        let metrics = self.metrics();
        metrics.membership_config.membership().get_node(&metrics.current_leader?).cloned()
    }
}

/// Service, shared with tasks on the thread of consensus.
pub(crate) type SharedService = Arc<Service>;

#[cfg(test)]
mod tests {
    use namespace::Stamp;
    use store::{MemoryStore, Store};

    use super::*;
    use crate::replica::{Replica, ReplicaConfig};
    use crate::state::snapshot::Chunks;
    use crate::types::{LogId, SnapshotMeta, Vote};

    /// Id of a snapshot by the leader of this term.
    fn of(term: u64) -> SnapshotId {
        let vote = Vote::new_committed(term, 7);
        (vote, Some(LogId::new(vote.leader_id, 50)))
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn chunks_of_two_leaders_snapshots_are_not_mixed() {
        let dir = tempfile::tempdir().unwrap();
        let (config, store) = (ReplicaConfig::alone(dir.path().to_owned(), 0), Arc::new(MemoryStore::new()));
        let open = move || Replica::open(config, store, Stamp::default(), Arc::new(()), Arc::new(()));
        let replica = tokio::task::spawn_blocking(open).await.unwrap().unwrap();
        let id = replica.status().id;
        let say = async |message: Consensus| {
            let message = transport::encode(&Request::Consensus(id, message));
            replica.serve(&[&[0], &message[..]].concat()).await
        };
        let filled = MemoryStore::new();
        let mut one = |edit: &mut dyn store::Edit| edit.put(b"key", b"value");
        filled.batch(store::Durability::Deferred, &mut one).unwrap();
        let chunk = Chunks::new(filled.snapshot().unwrap().into()).next_chunk().unwrap().unwrap();
        let chunk = |id| Consensus::SnapshotChunk { id, number: 0, chunk: Bytes::from(chunk.clone()) };
        let end = |(vote, last_log_id): SnapshotId| {
            let meta = SnapshotMeta { last_log_id, ..SnapshotMeta::default() };
            Consensus::SnapshotEnd { vote, meta, pairs: 1 }
        };

        say(Consensus::SnapshotBegin(of(3))).await.unwrap();
        say(Consensus::SnapshotBegin(of(4))).await.unwrap();
        assert!(say(chunk(of(3))).await.is_err(), "it is not what began last");
        assert!(say(Consensus::SnapshotBegin(of(3))).await.is_err(), "its leader is not the last");
        assert!(say(end(of(3))).await.is_err());
        say(chunk(of(4))).await.unwrap();
        assert!(say(end(of(3))).await.is_err());
        assert_eq!(spools(dir.path()), 1, "what was replaced takes no room");
    }

    fn spools(dir: &std::path::Path) -> usize {
        let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().starts_with(crate::state::snapshot::SPOOL)).count()
    }
}
