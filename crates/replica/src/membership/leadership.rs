//! Leadership transfer: a leader makes another voter the leader (Raft thesis, section 3.10).

use std::time::Duration;

use crate::consensus::liveness::reachable;
use crate::membership::reconfiguration::ReconfigurationGuard;
use crate::membership::{CATCH_UP_TIME_MAX, change_failed};
use crate::service::{ChangeError, Service};
use crate::transport::{self, Channel, Request};
use crate::types::{Metrics, NodeId};

/// Time in which a new leader hears of the reachable members.
pub(crate) const FIRST_CONTACT_TIME_MAX: Duration = Duration::from_secs(2);
/// Time-out of the question whether the next leader answers.
const ANSWER_TIME_MAX: Duration = Duration::from_millis(500);
/// Time in which the next leader wins its election, if it does.
const TRANSFER_TIME_MAX: Duration = Duration::from_secs(2);

/// Voters that can lead at once: reachable, those with the longest log first.
pub(crate) fn heirs(metrics: &Metrics) -> Vec<NodeId> {
    let reachable = reachable(metrics);
    // Not a voter that is losing its vote.
    let voters =
        metrics.membership_config.membership().get_joint_config().last().into_iter().flatten().copied();
    let others = voters.filter(|id| *id != metrics.id && reachable.contains(id));
    let has = |id: &NodeId| metrics.replication.as_ref()?.get(id)?.map(|at| at.index);
    let mut heirs: Vec<NodeId> = others.collect();
    heirs.sort_by_key(|id| (std::cmp::Reverse(has(id)), *id));
    heirs
}

impl Service {
    /// Hands leadership over, so that another leader can change the membership of this one.
    pub(crate) async fn step_down(&self, guard: &ReconfigurationGuard<'_>) -> ChangeError {
        match self.transfer_to_heir(guard).await {
            Ok(_) => ChangeError::NotLeader(self.leader()),
            Err(why) => change_failed(why),
        }
    }

    /// Transfers leadership to the best heir, and waits until it leads.
    pub(crate) async fn transfer_to_heir(&self, guard: &ReconfigurationGuard<'_>) -> Result<NodeId, String> {
        let some = |metrics: &Metrics| !metrics.state.is_leader() || !heirs(metrics).is_empty();
        let _ = self.raft.wait(Some(FIRST_CONTACT_TIME_MAX)).metrics(some, "an heir").await;
        let metrics = self.metrics();
        for heir in heirs(&metrics) {
            if self.responds(&metrics, heir).await {
                self.transfer(guard, heir).await?;
                return Ok(heir);
            }
        }
        Err("no other voter can be reached".into())
    }

    /// True if a member answers now: one that was reachable a moment ago may be dead, and an election would
    /// follow.
    async fn responds(&self, metrics: &Metrics, id: NodeId) -> bool {
        let Some(member) = metrics.membership_config.get_node(&id) else { return false };
        let body = transport::encode(&Request::WasRemoved { id: self.id, at: u64::MAX });
        self.transport.call(member, Channel::Requests, body, ANSWER_TIME_MAX).await.is_ok()
    }

    pub(crate) async fn transfer_to(&self, id: NodeId) -> Result<(), ChangeError> {
        if id == self.id {
            return Ok(());
        }
        let member = self.member(id)?;
        if !self.metrics().membership_config.voter_ids().any(|voter| voter == id) {
            return Err(change_failed(format!("{} is a learner: promote it first", member.name)));
        }
        if !self.responds(&self.metrics(), id).await {
            return Err(change_failed(format!("{} cannot be reached", member.name)));
        }
        // The next leader lacks no entries then, and is elected at once.
        self.caught_up(id, CATCH_UP_TIME_MAX).await?;
        self.transfer(&self.lock_reconfiguration().await, id).await.map_err(change_failed)
    }

    /// Transfers leadership to `to`. From now on this member orders nothing, and another voter will lead: so
    /// `to` must have a vote, and keep it meanwhile, which the guard ensures.
    pub(crate) async fn transfer(&self, _guard: &ReconfigurationGuard<'_>, to: NodeId) -> Result<(), String> {
        if !heirs(&self.metrics()).contains(&to) {
            return Err("the metaserver cannot lead now: it is not a reachable voter".into());
        }
        self.raft.trigger().transfer_leader(to).await.map_err(|e| e.to_string())?;
        let leads = |metrics: &Metrics| metrics.current_leader == Some(to);
        let led = self.raft.wait(Some(TRANSFER_TIME_MAX)).metrics(leads, "another member leads").await;
        led.map(drop).map_err(|_| {
            "the metaserver did not take leadership over in time: the voters elect a leader".into()
        })
    }
}
