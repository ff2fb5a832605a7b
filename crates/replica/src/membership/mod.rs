//! Membership changes and leadership transfers that operators request, carried out by the leader.
//!
//! A change goes through the log (`reconfiguration`): it needs a majority of the old voters and a majority of
//! the new ones. A change that leaves too few reachable voters would never commit, nor would later entries,
//! so it is refused. A member that is to be removed becomes a learner first.

pub(crate) mod capacity;
pub(crate) mod joining;
pub(crate) mod leadership;
pub(crate) mod reconfiguration;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use openraft::ChangeMembers;
use openraft::type_config::async_runtime::WatchReceiver;

use crate::consensus::liveness::{can_agree, reachable};
use crate::membership::leadership::FIRST_CONTACT_TIME_MAX;
use crate::service::{ChangeError, Service};
use crate::transport::{self, Channel, Request};
use crate::types::{Member, MemberChange, Metrics, NodeId};

/// Greatest number of voters: more make changes slower and hardly safer. Further members stay learners.
pub const VOTERS_MAX: usize = 5;

/// Time-out for a member that has almost all entries. Callers wait at most
/// [`crate::replica::FORWARD_TIME_MAX`].
pub(crate) const CATCH_UP_TIME_MAX: Duration = Duration::from_secs(4);
/// Time-out of the notice to a removed member; a member that misses it finds out by asking.
const TELL_TIME_MAX: Duration = Duration::from_secs(2);

pub(crate) fn change_failed(why: impl ToString) -> ChangeError {
    ChangeError::Failed(why.to_string())
}

impl Service {
    /// Carries out a change, if this member leads.
    pub(crate) async fn change(&self, change: MemberChange, force: bool) -> Result<(), ChangeError> {
        if !self.metrics().state.is_leader() {
            return Err(ChangeError::NotLeader(self.leader()));
        }
        let id = change.member();
        match change {
            MemberChange::Lead(_) => return self.transfer_to(id).await,
            MemberChange::Promote(_) => self.caught_up(id, CATCH_UP_TIME_MAX).await?,
            MemberChange::Remove(_) | MemberChange::Demote(_) => {}
        }
        // The change is judged by the membership at its turn.
        let guard = self.lock_reconfiguration().await;
        self.finish_change(&guard).await?;
        let metrics = self.metrics();
        let member = self.member(id)?;
        let mut voters: BTreeSet<NodeId> = metrics.membership_config.voter_ids().collect();
        let votes = voters.contains(&id);
        match change {
            MemberChange::Lead(_) => {}
            MemberChange::Promote(_) if votes => return Ok(()),
            MemberChange::Promote(_) => {
                if voters.len() >= VOTERS_MAX {
                    return Err(change_failed(format!("there are {VOTERS_MAX} voters, which is enough")));
                }
                voters.insert(id);
            }
            MemberChange::Demote(_) if !votes => return Ok(()),
            MemberChange::Remove(_) | MemberChange::Demote(_) => {
                if votes && voters.len() == 1 {
                    return Err(change_failed(format!("{} is the only one with a vote", member.name)));
                }
                if id == metrics.id {
                    return Err(self.step_down(&guard).await);
                }
                voters.remove(&id);
            }
        }
        if !force {
            self.can_agree(&voters).await?;
        }
        tracing::info!(?change, name = %member.name, "changing the membership");
        let ids = BTreeSet::from([id]);
        let (MemberChange::Remove(_) | MemberChange::Demote(_)) = change else {
            return self.change_membership(&guard, ChangeMembers::AddVoterIds(ids)).await;
        };
        // A removed member must not rely on its read lease.
        let _paused = self.grants.pause().await;
        if votes {
            self.change_membership(&guard, ChangeMembers::RemoveVoters(ids.clone())).await?;
        }
        if matches!(change, MemberChange::Remove(_)) {
            self.change_membership(&guard, ChangeMembers::RemoveNodes(ids)).await?;
            self.notify_removed(id, member);
        }
        Ok(())
    }

    /// The member with this id.
    pub(crate) fn member(&self, id: NodeId) -> Result<Member, ChangeError> {
        let member = self.metrics().membership_config.get_node(&id).cloned();
        member.ok_or_else(|| change_failed(format!("no member has the id {id:016x}")))
    }

    pub(crate) fn metrics(&self) -> Metrics {
        self.raft.metrics().borrow_watched().clone()
    }

    async fn can_agree(&self, voters: &BTreeSet<NodeId>) -> Result<(), ChangeError> {
        let agree = |metrics: &Metrics| can_agree(voters, &reachable(metrics)).is_ok();
        let _ = self.raft.wait(Some(FIRST_CONTACT_TIME_MAX)).metrics(agree, "voters are heard of").await;
        can_agree(voters, &reachable(&self.metrics())).map_err(change_failed)
    }

    /// Waits until a member has all entries that are committed now.
    pub(crate) async fn caught_up(&self, id: NodeId, limit: Duration) -> Result<(), ChangeError> {
        let upto = self.metrics().local_committed.map(|at| at.index);
        let has_all = |metrics: &Metrics| {
            let matched = metrics.replication.as_ref().and_then(|all| all.get(&id).copied().flatten());
            let is_known = metrics.membership_config.get_node(&id).is_some();
            metrics.replication.is_none() || !is_known || matched.is_some_and(|at| Some(at.index) >= upto)
        };
        let waited = self.raft.wait(Some(limit)).metrics(has_all, "the member has all").await;
        let waited =
            waited.map_err(|_| change_failed("the member does not have all entries yet: try again"))?;
        self.member(id)?;
        match waited.state.is_leader() {
            true => Ok(()),
            false => Err(ChangeError::NotLeader(self.leader())),
        }
    }

    /// True if `id` is no member any more, by a membership that is not older than `at`, the last one that
    /// `id` knows.
    pub(crate) fn was_removed(&self, id: NodeId, at: u64) -> bool {
        let committed = self.metrics().committed_membership_config;
        let later = committed.log_id().is_some_and(|log_id| log_id.index >= at);
        later && committed.get_node(&id).is_none()
    }

    fn notify_removed(&self, id: NodeId, member: Member) {
        let transport = Arc::clone(&self.transport);
        tokio::spawn(async move {
            let body = transport::encode(&Request::Removed(id));
            if let Err(error) = transport.call(&member, Channel::Requests, body, TELL_TIME_MAX).await {
                tracing::info!(name = %member.name, %error, "cannot notify the removed member, it will find out by itself");
            }
        });
    }
}
