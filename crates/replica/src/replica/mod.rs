//! The handle on the replicated state machine: propose, read, belong.

mod membership;
mod opening;
mod reading;
pub(crate) mod restored;
mod server_session;
#[cfg(test)]
mod tests;

use opening::Opening;
pub use opening::ReplicaConfig;
use reading::ReadLeaseHolder;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use namespace::{Command, Error, Generations, Incarnation, Proposal, Reply, RequestId, Stamp, Time};
use openraft::type_config::async_runtime::WatchReceiver;
use store::{Store, StoreError, View};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, oneshot};
use tokio::time::Instant;

use crate::consensus;
use crate::environment::{Environment, RunningTask};
use crate::metrics::ReplicaMetrics;
use crate::read::read_rounds::ReadRounds;
use crate::replica::server_session::ServerSession;
use crate::runtime::watch;
use crate::service::{ProposeOutcome, SharedService};
use crate::state::integrity::CheckedView;
use crate::state::machine::Observer;
use crate::transport::{self, Channel, Request, Transport, Unreachable};
use crate::types::{Change, Member, NodeId};

/// How long a call to the leader may take before it is made again; a broken connection is noticed at once.
const FORWARD_TIME_MAX: Duration = Duration::from_secs(10);
/// Between two tries when nobody is known to lead, unless somebody is before.
const LEADER_WAIT: Duration = Duration::from_millis(50);
/// A member that starts waits for an election; if for longer, it says for whom, so often.
const SAY_WAITING_AFTER: Duration = Duration::from_secs(2);
const SAY_WAITING_EVERY: Duration = Duration::from_secs(60);

/// Why a proposal has no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplicaError {
    /// The disk is full: nothing was done.
    #[error("no space for metadata")]
    NoSpace,
    /// The leader was lost on the way, and the group has forgotten this process meanwhile, for so many others that began.
    /// The command may have been done.
    #[error("the leader was lost before it answered: the change may or may not have been made")]
    Unknown,
    /// The log or the store failed, now or before. The command may be found done after a restart.
    #[error("metadata service failed: {0}")]
    Failed(String),
    /// The log cannot be opened: what this member had acknowledged may be lost. It must not vote again. See
    /// [`Replica::remove_lost`] for how a member fills itself again.
    #[error("{why}")]
    Damaged {
        /// What is damaged.
        why: String,
        /// The other voters, as the store has them.
        others: Vec<Member>,
    },
}

/// What people want to know of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaStatus {
    /// This member.
    pub id: NodeId,
    /// Who leads, as far as this member knows: heard of just now, or itself with enough voters that answer it.
    pub leader: Option<NodeId>,
    /// All members; whether each is a voter.
    pub members: Vec<(NodeId, Member, bool)>,
    /// Whether a change of members is on its way: nobody can say yet whether it will be.
    pub changing: bool,
    /// The term, and the index after the last entry that is applied here.
    pub term: u64,
    /// See `term`.
    pub applied: u64,
    /// If this member leads: who was heard of just now, itself too.
    pub reachable: BTreeSet<NodeId>,
    /// If this member leads: how long ago each other member was heard of.
    pub last_contact: BTreeMap<NodeId, Duration>,
    /// If this member leads: the index after the last entry that each other member has.
    pub matched: BTreeMap<NodeId, u64>,
}

/// A handle on the replicated state machine.
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
    running: Arc<Mutex<Option<Stoppable>>>,
    runtime: Handle,
}

/// What ends consensus, and what is to be waited for then.
type Stoppable = (oneshot::Sender<()>, RunningTask);

impl Replica {
    /// Opens log and store, and starts the thread of consensus. The only voter of a group is ready when this returns; for
    /// another one, see [`Replica::ready`]. `stamp` is what a new name space begins with; its random bits also tell this
    /// process from the ones before it.
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

    /// The same on what a simulation puts in the machine's place, without a thread: all that the replica does is done by
    /// tasks of the runtime that this is called in. It ends with them, or by [`Replica::stop_tasks`].
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

    /// Whether this member is the only voter: then it has what was acknowledged, without asking anybody.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.service.log.only_voter() == Some(self.id)
    }

    /// Returns when this member has applied all that its group had committed when this was called, and so can serve.
    ///
    /// # Errors
    /// [`ReplicaError::Failed`].
    pub async fn ready(&self) -> Result<(), ReplicaError> {
        let mut say_at = Instant::now() + SAY_WAITING_AFTER;
        let next = loop {
            match self.read_index().await {
                Ok(next) => break next,
                Err(why) => {
                    self.check()?;
                    if Instant::now() >= say_at {
                        say_at = Instant::now() + SAY_WAITING_EVERY;
                        let others = self.unreachable_voters();
                        tracing::info!(%why, %others, "waits until enough members with a vote can be reached");
                    }
                    self.next_leader().await;
                }
            }
        };
        self.applied(next).await
    }

    /// Which other voters there are, without those that were heard of just now.
    fn unreachable_voters(&self) -> String {
        let status = self.status();
        let heard =
            |id: &NodeId| *id == self.id || status.reachable.contains(id) || status.leader == Some(*id);
        let voters = status.members.iter().filter(|(id, _, voter)| *voter && !heard(id));
        let names = voters.map(|(_, member, _)| format!("{} at {}", member.name, member.address));
        names.collect::<Vec<_>>().join(", ")
    }

    /// Has the command ordered, made durable and applied, by whoever leads; what it did is seen here when this returns. One
    /// without a request id gets one of this process's, so that it is done once, whatever becomes of its leader. It carries the
    /// generations of the inodes that it names as this member has them: where the leader has others it is refused as stale.
    ///
    /// # Errors
    /// [`ReplicaError`]. A command whose caller went away may still be carried out.
    pub async fn propose(&self, mut proposal: Proposal) -> Result<Reply, ReplicaError> {
        let view = self.view().map_err(|e| self.failed_by(e.to_string()))?;
        let generations = Generations::of(&*view, &proposal.command);
        proposal.generations = generations.map_err(|e| self.failed_by(e.to_string()))?;
        drop(view);
        if proposal.request.is_some() || is_idempotent(&proposal.command) {
            return self.order(proposal).await;
        }
        let life = self.server_session.life();
        let life = *life.get_or_try_init(|| self.start_server_session(proposal.stamp.time)).await?;
        let slot = self.server_session.take_slot().await.map_err(|e| self.failed_by(e.to_string()))?;
        proposal.request = Some(RequestId::Server(slot.request(life)));
        match self.order(proposal).await? {
            Reply::Refused(Error::ServerGone) => {
                self.server_session.reset(life);
                Err(ReplicaError::Unknown)
            }
            reply => Ok(reply),
        }
    }

    /// Begins the session of this process. All of its sessions have one nonce: who asked for the first one, and is heard
    /// late, does not end the one that there is.
    async fn start_server_session(&self, time: Time) -> Result<u64, ReplicaError> {
        let stamp = Stamp { time, random: self.nonce };
        let command = Command::ServerStarts { member: self.id };
        match self.order(Proposal::new(stamp, None, command)).await? {
            Reply::Started { life } => Ok(life),
            other => Err(self.failed_by(format!("a metaserver's session begins with {other:?}"))),
        }
    }

    /// Has a command carried out that does no harm when it is made twice.
    async fn order(&self, mut proposal: Proposal) -> Result<Reply, ReplicaError> {
        if let Command::WriteInline { data, .. } = &mut proposal.command {
            // It is a slice of the record that it came in, which can be much longer, and would stay as long as the entry.
            *data = Bytes::copy_from_slice(data);
        }
        let change = Change(Arc::new(proposal));
        loop {
            let (proposed, elsewhere) = match self.service.propose(change.clone()).await {
                ProposeOutcome::NotLeader(Some((id, leader))) if id != self.id => {
                    (self.forward(&leader, &change).await, true)
                }
                proposed => (proposed, false),
            };
            match proposed {
                ProposeOutcome::Done { reply, index } => {
                    if elsewhere {
                        self.applied(index + 1).await?;
                    }
                    return Ok(reply);
                }
                ProposeOutcome::NoSpace => return Err(ReplicaError::NoSpace),
                // Of somebody else: another one will lead.
                ProposeOutcome::Failed(why) if !elsewhere => return Err(self.failed_by(why)),
                ProposeOutcome::NotLeader(_) | ProposeOutcome::Unknown | ProposeOutcome::Failed(_) => {
                    self.next_leader().await
                }
            }
        }
    }

    /// Calls who leads; does not wait for one who is found to lead no more.
    async fn call_leader(&self, leader: &Member, request: &Request) -> Result<Bytes, Unreachable> {
        let body = transport::encode(request);
        let mut metrics = self.service.raft.server_metrics();
        let deposed = async {
            let before = metrics.borrow_and_update().current_leader;
            while metrics.changed().await.is_ok() {
                if metrics.borrow_and_update().current_leader != before {
                    return;
                }
            }
            std::future::pending().await
        };
        tokio::select! {
            biased;
            carried = self.transport.call(leader, Channel::Requests, body, FORWARD_TIME_MAX) => carried,
            () = deposed => Err(Unreachable::NoAnswer(format!("{} leads no more", leader.name))),
        }
    }

    async fn forward(&self, leader: &Member, change: &Change) -> ProposeOutcome {
        let carried = self.call_leader(leader, &Request::Propose(change.clone())).await;
        let unknown = |why: &dyn std::fmt::Display| {
            tracing::debug!(leader = %leader.name, %why, "a forwarded command has no answer");
            ProposeOutcome::Unknown
        };
        match carried {
            Ok(answer) => transport::decode(&answer).unwrap_or_else(|why| unknown(&why)),
            Err(Unreachable::NotSent(_)) => ProposeOutcome::NotLeader(None),
            Err(Unreachable::NoAnswer(why)) => unknown(&why),
        }
    }

    /// Who leads, if it is another one and known here.
    #[must_use]
    pub fn leader(&self) -> Option<Member> {
        let metrics = self.service.raft.metrics().borrow_watched().clone();
        let id = metrics.current_leader.filter(|id| *id != self.id)?;
        metrics.membership_config.membership().get_node(&id).cloned()
    }

    /// Waits for a moment, or until somebody else leads.
    async fn next_leader(&self) {
        let mut metrics = self.service.raft.server_metrics();
        let before = metrics.borrow_and_update().current_leader;
        let another = async {
            while metrics.changed().await.is_ok() {
                let now = metrics.borrow_and_update().current_leader;
                if now != before && now.is_some() {
                    return;
                }
            }
            // Consensus has ended: who asks again and again is not to spin.
            std::future::pending().await
        };
        let _ = tokio::time::timeout(LEADER_WAIT, another).await;
    }

    /// A view that has everything that is applied here: after a reply, or after [`Replica::barrier`], that is what the
    /// caller may expect.
    ///
    /// # Errors
    /// [`StoreError`] when the engine fails.
    pub fn view(&self) -> Result<Box<dyn View + Send + Sync>, StoreError> {
        Ok(Box::new(CheckedView {
            view: self.store.snapshot()?,
            integrity: Arc::clone(&self.service.integrity),
        }))
    }

    /// Whether this member is not to tell clients anything any more: its state is wrong or in doubt, or it has failed. What
    /// an operation that is under way has found may be wrong, too.
    #[must_use]
    pub fn is_out_of_service(&self) -> bool {
        self.service.integrity.is_out_of_service() || self.failure.get().is_some()
    }

    /// Returns when this member is to serve nobody any more while it goes on voting, with the reason; never otherwise.
    pub async fn wait_out_of_service(&self) -> String {
        let mut reason = self.service.integrity.out_of_service();
        match reason.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            Err(_) => std::future::pending().await,
        }
    }

    /// The incarnation of the group, as far as this member has one.
    #[must_use]
    pub fn incarnation(&self) -> Option<Incarnation> {
        self.service.integrity.incarnation()
    }

    /// Whether this member leads, as far as it knows.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.service.raft.is_leader()
    }

    /// Times of the log and of consensus.
    #[must_use]
    pub fn metrics(&self) -> &ReplicaMetrics {
        &self.service.log.metrics
    }

    /// How the group stands.
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

    /// The runtime of the thread of consensus: whatever carries other members' calls to [`Replica::serve`] runs there, so
    /// that what they ask is not handed from one processor to another and back. It ends with [`Replica::stop`].
    #[must_use]
    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Carries out what another member asks; the answer goes back to it.
    ///
    /// # Errors
    /// Why there is no answer, for the log of the one that asked.
    pub async fn serve(&self, body: &[u8]) -> Result<Bytes, String> {
        self.service.serve(body).await
    }

    /// Asks the user of another member's replica: what its [`Observer::answer_peer`] answers.
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

    /// Returns when the replica has failed, with the reason; never otherwise.
    pub async fn failed(&self) -> String {
        let mut failure = self.failure.clone();
        match failure.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            // The thread says why it fails; it ends without a word only when it panics.
            Err(_) => "the thread of consensus ended".into(),
        }
    }

    /// Ends the thread of consensus, with log and store brought to disk. Other handles are of no use then.
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

    /// The same for one that [`Replica::open_in`] opened.
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

/// Whether a command that was done twice leaves what it left once, and answers the same.
fn is_idempotent(command: &Command) -> bool {
    matches!(
        command,
        Command::Format { .. }
            | Command::PutDataServer(_)
            | Command::DefineDevice { .. }
            | Command::DeferredDone { .. }
            | Command::ExpireClient { .. }
            | Command::LapseLease { .. }
            | Command::RenewLease { .. }
            | Command::SetStripe { .. }
            | Command::ServerStarts { .. }
    )
}
