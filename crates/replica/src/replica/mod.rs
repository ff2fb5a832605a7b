//! The handle on the replicated state machine: propose, read, belong.

mod membership;
mod opening;
mod proposing;
mod reading;
pub(crate) mod restored;
mod server_session;
#[cfg(test)]
mod tests;

use opening::Opening;
pub use opening::ReplicaConfig;
use reading::{ASK_TIME, ReadLeaseHolder};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use namespace::{Incarnation, Stamp};
use openraft::type_config::async_runtime::WatchReceiver;
use store::{Store, StoreError, View};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, oneshot};
use tokio::time::Instant;

use crate::consensus;
use crate::environment::{BlockingRunner, Environment, RunningTask};
use crate::metrics::ReplicaMetrics;
use crate::read::read_rounds::ReadRounds;
use crate::replica::server_session::ServerSession;
use crate::service::SharedService;
use crate::state::integrity::CheckedView;
use crate::state::machine::Observer;
use crate::transport::{self, Channel, Request, Transport, Unreachable};
use crate::types::{Member, NodeId};
use host::watch;

/// Time-out of a change of the members, which the leader carries out, and longest one of any call to it.
const FORWARD_TIME_MAX: Duration = Duration::from_secs(10);
/// First and later log lines of a starting member that waits for other voters.
const SAY_WAITING_AFTER: Duration = Duration::from_secs(2);
const SAY_WAITING_EVERY: Duration = Duration::from_secs(60);

/// Reason that a proposal has no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplicaError {
    /// The disk is full: nothing was done.
    #[error("no space for metadata")]
    NoSpace,
    /// The leader was lost before it answered, and the group has dropped this process's session since. The
    /// command may have been applied.
    #[error("the leader was lost before it answered: the change may or may not have been made")]
    Unknown,
    /// The log or the store failed, now or before. The command may turn out applied after a restart.
    #[error("metadata service failed: {0}")]
    Failed(String),
    /// The log cannot be opened: acknowledged entries may be lost, so this member must not vote again. See
    /// [`Replica::remove_lost`] for the rebuild.
    #[error("{why}")]
    Damaged {
        /// The damage.
        why: String,
        /// The other voters, from the store or the members file.
        others: Vec<Member>,
    },
}

/// Status of the group, as this member sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaStatus {
    /// This member.
    pub id: NodeId,
    /// The leader; None if it is unreachable, or if this member leads and too few voters answer.
    pub leader: Option<NodeId>,
    /// All members; true for voters.
    pub members: Vec<(NodeId, Member, bool)>,
    /// True while a membership change is in progress.
    pub changing: bool,
    /// Current term.
    pub term: u64,
    /// Index after the last applied entry.
    pub applied: u64,
    /// Members that this leader reaches, itself included; empty if it does not lead.
    pub reachable: BTreeSet<NodeId>,
    /// Time since this leader heard of each other member.
    pub last_contact: BTreeMap<NodeId, Duration>,
    /// Index after the last entry of each other member, if this member leads.
    pub matched: BTreeMap<NodeId, u64>,
}

/// Handle on the replicated state machine; clones share it.
#[derive(Clone)]
pub struct Replica {
    id: NodeId,
    store: Arc<dyn Store>,
    service: SharedService,
    transport: Arc<dyn Transport>,
    read_rounds: Arc<ReadRounds>,
    read_lease: Arc<ReadLeaseHolder>,
    progress: watch::Receiver<u64>,
    failure: watch::Receiver<Option<String>>,
    is_removed: watch::Receiver<bool>,
    server_session: Arc<ServerSession>,
    nonce: u64,
    /// Time at which this process began to open its store: no other one serves since.
    began: Instant,
    running: Arc<Mutex<Option<Stoppable>>>,
    runtime: Handle,
    runner: BlockingRunner,
}

/// Signal that stops consensus, and the thread or task to join.
type Stoppable = (oneshot::Sender<()>, RunningTask);

impl Replica {
    /// Opens log and store, and starts the thread of consensus. The only voter of a group is ready when this
    /// returns; see [`Replica::ready`] for others. `stamp` is the stamp of a new name space; its random bits
    /// also identify this process.
    ///
    /// # Errors
    /// When log or store cannot be opened, or are damaged.
    pub fn open(
        config: ReplicaConfig,
        store: Arc<dyn Store>,
        stamp: Stamp,
        transport: Arc<dyn Transport>,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, ReplicaError> {
        let (context, open) =
            Opening::new(Environment::default(), config, store, stamp, transport, observer)?;
        consensus::start(context).map(|started| open.replica(started)).map_err(ReplicaError::Failed)
    }

    /// Opens a replica in `environment`, without a thread: it runs as tasks of the current runtime, and ends
    /// with them or by [`Replica::stop_tasks`].
    ///
    /// # Errors
    /// As [`Replica::open`].
    pub async fn open_in(
        environment: Environment,
        config: ReplicaConfig,
        store: Arc<dyn Store>,
        stamp: Stamp,
        transport: Arc<dyn Transport>,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, ReplicaError> {
        let (context, open) = Opening::new(environment, config, store, stamp, transport, observer)?;
        let started = consensus::start_task(context).await;
        started.map(|started| open.replica(started)).map_err(ReplicaError::Failed)
    }

    /// Does work that blocks, such as a scan of many records: on a thread, or in a simulation, which has one thread, in this
    /// task.
    ///
    /// # Errors
    /// [`ReplicaError::Failed`] if `work` panics.
    pub async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ReplicaError> {
        self.runner.run(work).await.map_err(ReplicaError::Failed)
    }

    /// True if this member has space for commands that need some.
    #[must_use]
    pub fn has_capacity(&self) -> bool {
        self.service.has_capacity()
    }

    /// True if this member is the only voter: then its log has all acknowledged changes.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.service.log.only_voter() == Some(self.id)
    }

    /// True if this member has been the only one since this process began: clients cannot have used another one.
    #[must_use]
    pub fn has_always_been_alone(&self) -> bool {
        self.is_alone() && !self.service.log.had_others()
    }

    /// Waits until this member has applied all entries that are committed now, and so can serve.
    ///
    /// # Errors
    /// [`ReplicaError::Failed`].
    pub async fn ready(&self) -> Result<(), ReplicaError> {
        let mut say_at = Instant::now() + SAY_WAITING_AFTER;
        let next = loop {
            match self.read_index(ASK_TIME).await {
                Ok(next) => break next,
                Err(why) => {
                    self.check()?;
                    if Instant::now() >= say_at {
                        say_at = Instant::now() + SAY_WAITING_EVERY;
                        let others = self.unreachable_voters();
                        tracing::info!(%why, %others, "waiting for a majority of the voters");
                    }
                    self.next_leader().await;
                }
            }
        };
        self.applied(next).await
    }

    /// Names and addresses of the voters that are not reachable.
    fn unreachable_voters(&self) -> String {
        let status = self.status();
        let heard =
            |id: &NodeId| *id == self.id || status.reachable.contains(id) || status.leader == Some(*id);
        let voters = status.members.iter().filter(|(id, _, voter)| *voter && !heard(id));
        let names = voters.map(|(_, member, _)| format!("{} at {}", member.name, member.address));
        names.collect::<Vec<_>>().join(", ")
    }

    /// The leader, if it is another, known member.
    #[must_use]
    pub fn leader(&self) -> Option<Member> {
        let metrics = self.service.raft.metrics().borrow_watched().clone();
        let id = metrics.current_leader.filter(|id| *id != self.id)?;
        metrics.membership_config.membership().get_node(&id).cloned()
    }

    /// View of all entries that are applied here: after a reply, or after [`Replica::barrier`], it has what
    /// the caller may expect.
    ///
    /// # Errors
    /// [`StoreError`] when the engine fails.
    pub fn view(&self) -> Result<Box<dyn View + Send + Sync>, StoreError> {
        Ok(Box::new(CheckedView {
            view: self.store.snapshot()?,
            integrity: Arc::clone(&self.service.integrity),
        }))
    }

    /// True if this member must not answer clients: its state is wrong or in doubt, or it has failed. The
    /// result of an operation in progress may be wrong, too.
    #[must_use]
    pub fn is_out_of_service(&self) -> bool {
        self.service.integrity.is_out_of_service() || self.failure.get().is_some()
    }

    /// Returns the reason when this member stops serving while it goes on voting; never otherwise.
    pub async fn wait_out_of_service(&self) -> String {
        let mut reason = self.service.integrity.out_of_service();
        match reason.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            Err(_) => std::future::pending().await,
        }
    }

    /// Incarnation of the group, if this member knows it.
    #[must_use]
    pub fn incarnation(&self) -> Option<Incarnation> {
        self.service.integrity.incarnation()
    }

    /// True if this member leads, as far as it knows.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.service.raft.is_leader()
    }

    /// Latencies of the log and of consensus.
    #[must_use]
    pub fn metrics(&self) -> &ReplicaMetrics {
        &self.service.log.metrics
    }

    /// Status of the group.
    #[must_use]
    pub fn status(&self) -> ReplicaStatus {
        let metrics = self.service.raft.metrics().borrow_watched().clone();
        let membership = metrics.membership_config.membership();
        let voters: Vec<u64> = membership.voter_ids().collect();
        let member = |(id, member): (&u64, &Member)| (*id, member.clone(), voters.contains(id));
        let matched = metrics.replication.iter().flatten();
        let leads = metrics.state.is_leader();
        ReplicaStatus {
            reachable: if leads { crate::consensus::liveness::reachable(&metrics) } else { BTreeSet::new() },
            last_contact: crate::consensus::liveness::last_contact(&metrics),
            matched: matched.map(|(id, at)| (*id, at.map_or(0, |at| at.index + 1))).collect(),
            id: self.id,
            leader: crate::consensus::liveness::reachable_leader(&metrics, &self.service.liveness),
            members: membership.nodes().map(member).collect(),
            changing: membership.get_joint_config().len() > 1
                || metrics.committed_membership_config.log_id() != metrics.membership_config.log_id(),
            term: metrics.current_term,
            applied: *self.progress.get(),
        }
    }

    /// Runtime of the thread of consensus. Tasks that pass calls to [`Replica::serve`] belong on it, so that
    /// a call stays on one processor. It ends with [`Replica::stop`].
    #[must_use]
    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Answers a call of another member.
    ///
    /// # Errors The reason that there is no answer, for the caller's log.
    pub async fn serve(&self, body: &[u8]) -> Result<Bytes, String> {
        self.service.serve(body).await
    }

    /// Asks another member's observer; [`Observer::answer_peer`] answers.
    ///
    /// # Errors
    /// [`Unreachable`].
    pub async fn ask_peer(
        &self,
        to: &Member,
        question: Bytes,
        limit: Duration,
    ) -> Result<Bytes, Unreachable> {
        let body = transport::encode(&Request::Ask(question));
        self.transport.call(to, Channel::Requests, body, limit).await
    }

    fn check(&self) -> Result<(), ReplicaError> {
        match &*self.failure.get() {
            Some(reason) => Err(ReplicaError::Failed(reason.clone())),
            None if self.progress.is_closed() => Err(ReplicaError::Failed("stopped".into())),
            None => Ok(()),
        }
    }

    fn failed_by(&self, why: String) -> ReplicaError {
        let reason = self.failure.get().clone().or_else(|| self.service.log.failure());
        ReplicaError::Failed(reason.unwrap_or(why))
    }

    /// Returns the reason when the replica fails; never otherwise.
    pub async fn failed(&self) -> String {
        let mut failure = self.failure.clone();
        match failure.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            // The thread sets a reason when it fails; without one it has panicked.
            Err(_) => "the thread of consensus ended".into(),
        }
    }

    /// Stops the thread of consensus, with log and store on disk. Clones of the handle are useless
    /// afterwards.
    pub fn stop(self) {
        if let Some((stop, running)) = self.running.try_lock().ok().and_then(|mut running| running.take()) {
            let _ = stop.send(());
            self.service.log.stop_waiting();
            running.join();
        }
        if let Some(log) = self.service.log.close() {
            log.join();
        }
    }

    /// Stops a replica that [`Replica::open_in`] opened.
    pub async fn stop_tasks(self) {
        if let Some((stop, running)) = self.running.lock().await.take() {
            let _ = stop.send(());
            self.service.log.stop_waiting();
            running.ended().await;
        }
        if let Some(log) = self.service.log.close() {
            log.ended().await;
        }
    }
}
