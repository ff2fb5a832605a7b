//! Joining: the leader takes a member into the group.

use std::time::Duration;

use openraft::ChangeMembers;

use crate::membership::{VOTERS_MAX, change_failed};
use crate::service::{ChangeError, Service};
use crate::transport::{self, Channel, Request};
use crate::types::{Member, MemberRole, NodeId};

/// Time-out of the question for a member's id; a running member answers at once.
const IDENTITY_TIME_MAX: Duration = Duration::from_millis(500);
/// Time-out for a new member to receive all entries, or a snapshot.
const JOIN_CATCH_UP_TIME_MAX: Duration = Duration::from_secs(600);

impl Service {
    pub(crate) async fn handle_join(
        &self,
        id: NodeId,
        member: Member,
        role: MemberRole,
    ) -> Result<(), ChangeError> {
        if !self.raft.is_leader() {
            return Err(ChangeError::NotLeader(self.leader()));
        }
        self.remove_displaced_learner(id, &member).await?;
        match self.conflict(id, &member) {
            Some(why) => Err(ChangeError::Permanent(why)),
            None => self.join(id, member, role).await,
        }
    }

    /// Removes a learner with the name and address of the new member, but another id: it lost its directory
    /// before it had a vote.
    async fn remove_displaced_learner(&self, id: NodeId, member: &Member) -> Result<(), ChangeError> {
        let known = self.metrics().membership_config;
        let mut learners = known.membership().learner_ids().filter(|other| *other != id);
        let there = |other: &NodeId| {
            known
                .get_node(other)
                .is_some_and(|known| (&known.address, &known.name) == (&member.address, &member.name))
        };
        let Some(other) = learners.find(there) else { return Ok(()) };
        if self.is_running_at(id, member).await {
            tracing::info!(id = other, address = %member.address, "removing a learner: a new member has its name and address");
            let _paused = self.grants.pause().await;
            self.reconfigure(ChangeMembers::RemoveNodes([other].into())).await?;
        }
        Ok(())
    }

    /// True if the member with this id answers at its address and was not removed.
    async fn is_running_at(&self, id: NodeId, member: &Member) -> bool {
        let asked = transport::encode(&Request::Identity);
        let answer = self.transport.call(member, Channel::Requests, asked, IDENTITY_TIME_MAX).await;
        answer.is_ok_and(|answer| transport::decode(&answer) == Ok(id))
    }

    /// Adds a member as a learner, which receives all entries.
    async fn add_learner(&self, id: NodeId, member: Member) -> Result<(), ChangeError> {
        let guard = self.lock_reconfiguration().await;
        self.finish_change(&guard).await?;
        if self.metrics().membership_config.get_node(&id).is_none() {
            // The request may be late: the member was added and removed since, and another one has its
            // address.
            if let Some(why) = self.conflict(id, &member) {
                return Err(ChangeError::Permanent(why));
            }
            if !self.is_running_at(id, &member).await {
                return Err(change_failed(format!("it does not answer at {}", member.address)));
            }
        }
        self.put_learner(&guard, id, member).await
    }

    /// Reason that a member cannot join: another member has its name or its address.
    pub(crate) fn conflict(&self, id: NodeId, member: &Member) -> Option<String> {
        let known = self.metrics().membership_config;
        let others = known.membership().nodes().filter(|(other, _)| **other != id);
        let conflict = |other: &Member| match (other.address == member.address, other.name == member.name) {
            (true, _) => Some("address"),
            (false, true) => Some("name"),
            (false, false) => None,
        };
        let (what, Member { name, address, .. }) =
            others.filter_map(|(_, other)| Some((conflict(other)?, other))).next()?;
        Some(format!(
            "the group has a member {name:?} at {address} already; choose another {what}, or remove that one first if it \
             is gone for good"
        ))
    }

    /// Adds a member, or updates the address of an old one: first as a learner, then, if wanted and possible,
    /// as a voter, once it has all entries.
    pub(crate) async fn join(&self, id: NodeId, member: Member, role: MemberRole) -> Result<(), ChangeError> {
        let known = self.metrics().membership_config;
        let votes = known.voter_ids().any(|voter| voter == id);
        if votes || known.get_node(&id).is_some_and(|known| *known != member) {
            self.reconfigure(ChangeMembers::SetNodes([(id, member.clone())].into())).await?;
        }
        if votes {
            return Ok(());
        }
        tracing::info!(id, name = %member.name, address = %member.address, ?role, "adding a member");
        self.add_learner(id, member).await?;
        // It may receive a snapshot first.
        self.caught_up(id, JOIN_CATCH_UP_TIME_MAX).await.map_err(|error| match error {
            ChangeError::NotLeader(_) => change_failed("the leader changes"),
            error => error,
        })?;
        if role == MemberRole::Learner {
            return Ok(());
        }
        let guard = self.lock_reconfiguration().await;
        self.finish_change(&guard).await?;
        match self.raft.voter_ids().count() < VOTERS_MAX {
            true => self.change_membership(&guard, ChangeMembers::AddVoterIds([id].into())).await,
            false => Ok(()),
        }
    }
}
