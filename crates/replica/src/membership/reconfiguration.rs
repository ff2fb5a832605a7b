//! A change of who belongs is carried through the log: one at a time, and none begins where another was left half done.
//!
//! A change of voters takes two entries (joint consensus): first the majorities of both sets are needed, then that of the new
//! one. A leader that dies between the two leaves the first behind. A change that began from there would take away who was to
//! become a learner, and would be led by who belongs no longer; so whoever leads brings it to its end first, unless it belongs
//! no longer itself: then another one leads.

use std::collections::BTreeSet;
use std::sync::Weak;
use std::time::Duration;

use openraft::ChangeMembers;
use openraft::errors::{ClientWriteError, RaftError};
use tokio::sync::MutexGuard;

use crate::membership::change_failed;
use crate::service::{ChangeError, Service};
use crate::types::{Member, NodeId, Types};

/// Both steps of a change, with voters that live.
const CHANGE_TIME_MAX: Duration = Duration::from_secs(4);
/// How often a leader looks for a change that was left half done.
const LOOK_EVERY: Duration = Duration::from_millis(500);

type Outcome<T> = Result<T, RaftError<Types, ClientWriteError<Types>>>;

/// As who asked for it can understand it.
fn to_change_error<T>(outcome: Outcome<T>) -> Result<(), ChangeError> {
    match outcome {
        Ok(_) => Ok(()),
        Err(RaftError::APIError(ClientWriteError::ForwardToLeader(to))) => {
            Err(ChangeError::NotLeader(to.leader_node))
        }
        Err(e) => Err(change_failed(e)),
    }
}

/// Leave to change who belongs or who leads, which one has at a time: who is about to lead must not lose its vote meanwhile.
pub(crate) struct ReconfigurationGuard<'a>(#[expect(dead_code, reason = "held")] MutexGuard<'a, ()>);

impl Service {
    pub(crate) async fn lock_reconfiguration(&self) -> ReconfigurationGuard<'_> {
        ReconfigurationGuard(self.reconfiguring.lock().await)
    }

    /// Carries a change of who votes, or of where members are, to its end. Who loses its vote stays as a learner.
    pub(crate) async fn reconfigure(&self, change: ChangeMembers<NodeId, Member>) -> Result<(), ChangeError> {
        let guard = self.lock_reconfiguration().await;
        self.finish_change(&guard).await?;
        self.change_membership(&guard, change).await
    }

    /// A member is a learner from now on, if it is none already.
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

    /// Brings what another leader left half done to its end: what people ask for is judged by who belongs then.
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
        tracing::info!("a change of members that another leader began is brought to its end");
        // Who loses its vote must not believe that it is waited for.
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
    tokio::time::timeout(CHANGE_TIME_MAX, change)
        .await
        .map_err(|_| change_failed("it is not agreed on yet, and will be when enough voters can be reached"))
}

/// Brings changes of other leaders to their end, whenever this member leads, for as long as it is there.
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
            tracing::info!(%why, "a change of members is not at its end yet");
        }
    }
}
