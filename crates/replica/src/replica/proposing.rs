//! Proposals: a command goes to the leader, again and again until it is answered, under a request id by which the state
//! machine knows it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use namespace::{Command, Error, Generations, Proposal, Reply, RequestId, Snapshots, Stamp, Time};
use openraft::type_config::async_runtime::WatchReceiver;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::time::Instant;

use super::{FORWARD_TIME_MAX, Replica, ReplicaError};
use crate::service::ProposeOutcome;
use crate::transport::{self, Channel, Request, Unreachable};
use crate::types::{Change, Member};

/// First time-out of a command that is sent to the leader, which is then sent again: see [`Patience`]. A broken connection
/// and another leader end the call at once.
const PROPOSE_TIME: Duration = Duration::from_secs(3);
/// Retry interval without a leader; a leader change ends the wait.
const LEADER_WAIT: Duration = Duration::from_millis(50);

/// Time-outs of a call to the leader that is repeated: a lost one costs little, and a slow leader is not asked again and
/// again.
pub(super) struct Patience {
    pub limit: Duration,
    began: Instant,
}

impl Patience {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, began: Instant::now() }
    }

    /// The call has failed: if its time was up, the next one gets twice as much.
    pub(super) fn failed(&mut self) {
        if self.began.elapsed() >= self.limit {
            self.limit = (2 * self.limit).min(FORWARD_TIME_MAX);
        }
    }

    /// The next call begins.
    pub(super) fn begins(&mut self) -> Duration {
        self.began = Instant::now();
        self.limit
    }
}

impl Replica {
    /// Proposes a command: returns once it is ordered, durable and applied here. A command without a request
    /// id gets one of this process's server session, so that it is applied once even if the leader changes.
    /// It carries the generations of the inodes that it names, as this member knows them: a leader with other
    /// generations refuses it as stale.
    ///
    /// # Errors
    /// [`ReplicaError`]. A command whose caller went away may still be carried out.
    pub async fn propose(&self, proposal: Proposal) -> Result<Reply, ReplicaError> {
        // Before the command has a slot of this process: what the observer does may need one.
        let Some(before) = self.service.observer.before_order(&proposal.command) else {
            return self.propose_now(proposal, None).await;
        };
        // In a task of its own: if the caller goes away, a command that is being ordered is ordered all the same, and the
        // guard lasts as long.
        let replica = self.clone();
        let (here, gone) = oneshot::channel::<()>();
        let proposed = tokio::spawn(async move {
            let mut gone = gone;
            let guard = tokio::select! {
                biased;
                guard = before => guard,
                _ = &mut gone => return Err(ReplicaError::Unknown),
            };
            let outcome = replica.propose_now(proposal, Some(gone)).await;
            drop(guard);
            outcome
        });
        let outcome = proposed.await;
        drop(here);
        outcome.unwrap_or_else(|ended| Err(self.failed_by(ended.to_string())))
    }

    /// `gone` ends when the caller goes away: then nothing is tried again.
    async fn propose_now(
        &self,
        mut proposal: Proposal,
        gone: Option<oneshot::Receiver<()>>,
    ) -> Result<Reply, ReplicaError> {
        let view = self.view().map_err(|e| self.failed_by(e.to_string()))?;
        let generations = Generations::of(&Snapshots(&*view), &proposal.command);
        proposal.generations = generations.map_err(|e| self.failed_by(e.to_string()))?;
        drop(view);
        if proposal.request.is_some() || is_idempotent(&proposal.command) {
            return self.order(proposal, gone).await;
        }
        let life = self.begin_server_session(proposal.stamp.time).await?;
        let slot = self.server_session.take_slot().await.map_err(|e| self.failed_by(e.to_string()))?;
        proposal.request = Some(RequestId::Server(slot.request(life)));
        match self.order(proposal, gone).await? {
            Reply::Refused(Error::ServerGone) => {
                self.server_session.reset(life);
                Err(ReplicaError::Unknown)
            }
            reply => Ok(reply),
        }
    }

    /// Begins the server session of this process, unless it has begun. Returns the life of the process. The others learn
    /// by it that the process has started: best soon, and not with its first command.
    ///
    /// # Errors
    /// [`ReplicaError`].
    pub async fn begin_server_session(&self, time: Time) -> Result<u64, ReplicaError> {
        let life = self.server_session.life();
        life.get_or_try_init(|| self.start_server_session(time)).await.copied()
    }

    /// The sessions of this process have one nonce: a late duplicate of the first request does not end the current
    /// session.
    async fn start_server_session(&self, time: Time) -> Result<u64, ReplicaError> {
        let stamp = Stamp { time, random: self.nonce };
        let age_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let command = Command::ServerStarts { member: self.id, age_ms };
        match self.order(Proposal::new(stamp, None, command), None).await? {
            Reply::Started { life } => Ok(life),
            other => Err(self.failed_by(format!("a metaserver's session begins with {other:?}"))),
        }
    }

    /// Orders a command that may be applied twice without harm.
    async fn order(
        &self,
        mut proposal: Proposal,
        mut gone: Option<oneshot::Receiver<()>>,
    ) -> Result<Reply, ReplicaError> {
        if let Command::WriteInline { data, .. } = &mut proposal.command {
            // The data are a slice of a received record, which would stay in memory as long as the entry.
            *data = Bytes::copy_from_slice(data);
        }
        let change = Change(Arc::new(proposal));
        let mut patience = Patience::new(PROPOSE_TIME);
        loop {
            let limit = patience.begins();
            let (proposed, elsewhere) = match self.service.propose(change.clone()).await {
                ProposeOutcome::NotLeader(Some((id, leader))) if id != self.id => {
                    (self.forward(&leader, &change, limit).await, true)
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
                // The other member's log failed; another leader follows.
                ProposeOutcome::Failed(why) if !elsewhere => return Err(self.failed_by(why)),
                ProposeOutcome::NotLeader(_) | ProposeOutcome::Unknown | ProposeOutcome::Failed(_) => {
                    patience.failed();
                    if gone.as_mut().is_some_and(|gone| gone.try_recv() == Err(TryRecvError::Closed)) {
                        return Err(ReplicaError::Unknown);
                    }
                    self.next_leader().await;
                }
            }
        }
    }

    /// Calls the leader; ends early when it leads no more.
    pub(super) async fn call_leader(
        &self,
        leader: &Member,
        request: &Request,
        time_max: Duration,
    ) -> Result<Bytes, Unreachable> {
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
            carried = self.transport.call(leader, Channel::Requests, body, time_max) => carried,
            () = deposed => Err(Unreachable::NoAnswer(format!("{} leads no more", leader.name))),
        }
    }

    async fn forward(&self, leader: &Member, change: &Change, limit: Duration) -> ProposeOutcome {
        let carried = self.call_leader(leader, &Request::Propose(change.clone()), limit).await;
        let unknown = |why: &dyn std::fmt::Display| {
            tracing::debug!(leader = %leader.name, %why, "no answer to a forwarded command");
            ProposeOutcome::Unknown
        };
        match carried {
            Ok(answer) => transport::decode(&answer).unwrap_or_else(|why| unknown(&why)),
            Err(Unreachable::NotSent(_)) => ProposeOutcome::NotLeader(None),
            Err(Unreachable::NoAnswer(why)) => unknown(&why),
        }
    }

    /// Waits for [`LEADER_WAIT`], or until another member leads.
    pub(super) async fn next_leader(&self) {
        let mut metrics = self.service.raft.server_metrics();
        let before = metrics.borrow_and_update().current_leader;
        let another = async {
            while metrics.changed().await.is_ok() {
                let now = metrics.borrow_and_update().current_leader;
                if now != before && now.is_some() {
                    return;
                }
            }
            // Consensus has ended: the caller's retries must not spin.
            std::future::pending().await
        };
        let _ = tokio::time::timeout(LEADER_WAIT, another).await;
    }
}

/// True if a command that is applied twice has the effect and the reply of one application.
fn is_idempotent(command: &Command) -> bool {
    matches!(
        command,
        Command::Format { .. }
            | Command::PutDataServer { .. }
            | Command::DefineDevice { .. }
            | Command::ChangeChains { .. }
            | Command::DeferredDone { .. }
            | Command::ExpireClient { .. }
            | Command::LapseLease { .. }
            | Command::RenewLease { .. }
            | Command::SetStripe { .. }
            | Command::DelegationsReturn { .. }
            | Command::ServerStarts { .. }
    )
}
