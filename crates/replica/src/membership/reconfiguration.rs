//! Reconfiguration: membership changes in the log, one at a time, after unfinished ones are finished.
//!
//! A change of voters takes two entries (joint consensus; Raft, section 6): the first needs majorities of
//! both sets, the second one of the new set. A leader that dies in between leaves the change unfinished. A
//! new change from that state would remove a member that was to become a learner, and a removed member could
//! lead it. So the leader finishes the old change first; a leader that is not in the new set hands over
//! instead.

use std::collections::BTreeSet;
use std::sync::Weak;
use std::time::Duration;

use openraft::ChangeMembers;
use openraft::errors::{ClientWriteError, RaftError};
use tokio::sync::MutexGuard;

use crate::membership::change_failed;
use crate::service::{ChangeError, Service};
use crate::types::{Member, NodeId, Types};

/// Time-out of both entries of a change, with reachable voters.
const CHANGE_TIME_MAX: Duration = Duration::from_secs(4);
/// Interval at which a leader looks for an unfinished change.
const LOOK_EVERY: Duration = Duration::from_millis(500);

type Outcome<T> = Result<T, RaftError<Types, ClientWriteError<Types>>>;

/// Error of openraft, for the caller of a change.
fn to_change_error<T>(outcome: Outcome<T>) -> Result<(), ChangeError> {
    match outcome {
        Ok(_) => Ok(()),
        Err(RaftError::APIError(ClientWriteError::ForwardToLeader(to))) => {
            Err(ChangeError::NotLeader(to.leader_node))
        }
        Err(e) => Err(change_failed(e)),
    }
}

/// Permission to change the membership or the leader, held by one task at a time: a future leader must keep
/// its vote.
pub(crate) struct ReconfigurationGuard<'a>(#[expect(dead_code, reason = "held")] MutexGuard<'a, ()>);

impl Service {
    pub(crate) async fn lock_reconfiguration(&self) -> ReconfigurationGuard<'_> {
        ReconfigurationGuard(self.reconfiguring.lock().await)
    }

    /// Changes voters or addresses. A voter that loses its vote stays as a learner.
    pub(crate) async fn reconfigure(&self, change: ChangeMembers<NodeId, Member>) -> Result<(), ChangeError> {
        let guard = self.lock_reconfiguration().await;
        self.finish_change(&guard).await?;
        self.change_membership(&guard, change).await
    }

    /// Adds a learner, or updates its address.
    pub(crate) async fn put_learner(
        &self,
        _guard: &ReconfigurationGuard<'_>,
        id: NodeId,
        member: Member,
    ) -> Result<(), ChangeError> {
        to_change_error(limit_time(self.raft.add_learner(id, member, false)).await?)
    }

    pub(crate) async fn change_membership(
        &self,
        _guard: &ReconfigurationGuard<'_>,
        change: ChangeMembers<NodeId, Member>,
    ) -> Result<(), ChangeError> {
        to_change_error(limit_time(self.raft.change_membership(change, true)).await?)
    }

    /// Finishes a change that another leader began: the next change is judged by its result.
    pub(crate) async fn finish_change(&self, guard: &ReconfigurationGuard<'_>) -> Result<(), ChangeError> {
        let metrics = self.metrics();
        if !metrics.state.is_leader() {
            return Err(ChangeError::NotLeader(self.leader()));
        }
        let steps = metrics.membership_config.membership().get_joint_config();
        let Some(last) = steps.last() else { return Ok(()) };
        if !last.contains(&self.id) {
            return Err(self.step_down(guard).await);
        }
        if steps.len() == 1 {
            return Ok(());
        }
        tracing::info!("finishing a membership change of an earlier leader");
        // A member that loses its vote must not rely on its read lease.
        let _paused = self.grants.pause().await;
        self.change_membership(guard, ChangeMembers::AddVoterIds(BTreeSet::new())).await
    }

    fn has_unfinished_change(&self) -> bool {
        let metrics = self.metrics();
        let steps = metrics.membership_config.membership().get_joint_config();
        metrics.state.is_leader() && (steps.len() > 1 || steps.iter().any(|last| !last.contains(&self.id)))
    }
}

async fn limit_time<T>(change: impl Future<Output = T>) -> Result<T, ChangeError> {
    tokio::time::timeout(CHANGE_TIME_MAX, change).await.map_err(|_| {
        change_failed(
            "the membership change waits for a majority of the voters, and completes once they are reachable",
        )
    })
}

/// Finishes the changes of earlier leaders while this member leads, until it stops.
pub(crate) async fn finish_changes(service: Weak<Service>) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(service) = service.upgrade() else { return };
        if !service.has_unfinished_change() {
            continue;
        }
        if let Err(ChangeError::Failed(why) | ChangeError::Permanent(why)) =
            service.finish_change(&service.lock_reconfiguration().await).await
        {
            tracing::info!(%why, "cannot finish a membership change yet, trying again");
        }
    }
}
