//! Membership of this member: it joins its group, announces its address, and hands leadership over.

use std::time::Duration;

use openraft::type_config::async_runtime::WatchReceiver;

use super::{FORWARD_TIME_MAX, Replica, ReplicaStatus};
use crate::membership::VOTERS_MAX;
use crate::service::ChangeError;
use crate::transport::{self, Channel, Request};
use crate::types::{Member, MemberChange, MemberRole, NodeId};

/// Time for a membership change to find a leader.
const CHANGE_TIME_MAX: Duration = Duration::from_secs(20);
/// Time-out of the question for a member's id.
const IDENTITY_TIME_MAX: Duration = Duration::from_secs(3);
/// Retry interval of a join.
const JOIN_RETRY_AFTER: Duration = Duration::from_millis(500);

impl Replica {
    /// Joins the group of the member at `address`. Returns when this member has all entries, and a vote if it
    /// is to have one and there are fewer than [`VOTERS_MAX`].
    ///
    /// # Errors The group's reason to refuse.
    pub async fn join(
        &self,
        address: &str,
        member: Member,
        role: MemberRole,
        limit: Duration,
    ) -> Result<(), String> {
        let request = match role {
            MemberRole::Voter => Request::Join(self.id, member),
            MemberRole::Learner => Request::JoinAsLearner(self.id, member),
        };
        let (name, address) = (address.to_owned(), address.to_owned());
        let to = Member { name, address, serves: String::new() };
        self.ask_leader(to, &request, limit).await
    }

    /// Removes the lost member that this one replaces from the group; then this one can [`Replica::join`].
    /// `address` is that of any remaining member.
    ///
    /// The lost member never votes again, so its acknowledged entries are not missed: until it is removed, a
    /// leader is elected by a majority without it.
    ///
    /// # Errors The group's reason to refuse.
    pub async fn remove_lost(&self, address: &str, lost: NodeId, limit: Duration) -> Result<(), String> {
        let (name, address) = (address.to_owned(), address.to_owned());
        let to = Member { name, address, serves: String::new() };
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            // An earlier request may have succeeded, and its answer was lost.
            let asked = transport::encode(&Request::WasRemoved { id: lost, at: 0 });
            let answer = self.transport.call(&to, Channel::Requests, asked, FORWARD_TIME_MAX).await;
            if answer.is_ok_and(|answer| transport::decode(&answer) == Ok(true)) {
                return Ok(());
            }
            let request = Request::Change { change: MemberChange::Remove(lost), force: false };
            match self.ask_leader(to.clone(), &request, limit.min(FORWARD_TIME_MAX)).await {
                Err(_) if tokio::time::Instant::now() < deadline => {}
                outcome => return outcome,
            }
        }
    }

    /// Sends a membership request to the leader, which `first` or its successors name; retries until `limit`.
    async fn ask_leader(&self, first: Member, request: &Request, limit: Duration) -> Result<(), String> {
        let body = transport::encode(request);
        let mut to = first.clone();
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            if self.is_removed() {
                return Err("this member was removed from its group meanwhile".into());
            }
            let answer = self.transport.call(&to, Channel::Requests, body.clone(), limit).await;
            let outcome: Result<Result<(), ChangeError>, String> =
                answer.map_err(|e| e.to_string()).and_then(|answer| transport::decode(&answer));
            let why = match outcome {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(ChangeError::NotLeader(Some(leader)))) => {
                    to = leader;
                    "the asked member does not lead".to_owned()
                }
                Ok(Err(ChangeError::NotLeader(None))) => {
                    to = first.clone();
                    "no member leads".to_owned()
                }
                Ok(Err(ChangeError::Permanent(why))) => return Err(why),
                Ok(Err(ChangeError::Failed(why))) => why,
                // The named leader may be dead: a follower names it for a moment longer.
                Err(why) => {
                    to = first.clone();
                    why
                }
            };
            if tokio::time::Instant::now() >= deadline {
                return Err(why);
            }
            tracing::info!(to = %to.address, %why, "cannot join the group yet, trying again");
            tokio::time::sleep(JOIN_RETRY_AFTER).await;
        }
    }

    /// Carries out a membership change, through the leader. A change that leaves too few reachable voters is
    /// refused unless `force`.
    ///
    /// # Errors The reason, for the operator.
    pub async fn change_members(&self, change: MemberChange, force: bool) -> Result<(), String> {
        let deadline = tokio::time::Instant::now() + CHANGE_TIME_MAX;
        let mut may_be_done = false;
        loop {
            let outcome = match self.service.change(change, force).await {
                Err(ChangeError::NotLeader(Some(leader))) => {
                    let request = Request::Change { change, force };
                    let answer = self.call_leader(&leader, &request, FORWARD_TIME_MAX).await;
                    let answer: Result<Result<(), ChangeError>, String> =
                        answer.map_err(|e| e.to_string()).and_then(|answer| transport::decode(&answer));
                    // A retry tells whether it was done.
                    answer.unwrap_or(Err(ChangeError::NotLeader(None)))
                }
                here => here,
            };
            let is_gone = |id| *self.is_removed.get() || self.service.was_removed(id, 0);
            match (outcome, change) {
                (Ok(()), _) => return Ok(()),
                (_, MemberChange::Remove(id)) if may_be_done && is_gone(id) => return Ok(()),
                (Err(ChangeError::Failed(why) | ChangeError::Permanent(why)), _) => return Err(why),
                (Err(ChangeError::NotLeader(_)), _) if tokio::time::Instant::now() >= deadline => {
                    return Err("no member leads: too few voters can be reached".into());
                }
                (Err(ChangeError::NotLeader(_)), _) => {
                    may_be_done = true;
                    self.next_leader().await;
                }
            }
        }
    }

    /// True if this member was removed from its group: then it has failed, and is not taken back.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        *self.is_removed.get()
    }

    /// Announces this member's address and role to the group, if it does not know them.
    ///
    /// # Errors The group's reason to refuse; another member with this name or address; another process that
    /// runs as this member.
    pub async fn announce(&self, member: Member, role: MemberRole) -> Result<(), String> {
        if let Some(why) = self.service.conflict(self.id, &member) {
            return Err(why);
        }
        self.refuse_second_process(&member).await?;
        // A learner may have been interrupted before it got its vote.
        let known = |status: &ReplicaStatus| {
            let votes = status.members.iter().filter(|(.., voter)| *voter).count();
            let me = status.members.iter().find(|(id, m, _)| *id == self.id && *m == member);
            me.is_some_and(|(.., voter)| *voter || role == MemberRole::Learner || votes >= VOTERS_MAX)
        };
        while !known(&self.status()) {
            self.check().map_err(|e| e.to_string())?;
            let outcome = if self.leads() {
                self.service.join(self.id, member.clone(), role).await.map_err(|e| e.to_string())
            } else if let Some(leader) = self.leader() {
                self.join(&leader.address, member.clone(), role, FORWARD_TIME_MAX).await
            } else {
                Ok(())
            };
            if let Err(why) = outcome {
                tracing::debug!(%why, "cannot announce this member yet, trying again");
            }
            self.next_leader().await;
        }
        Ok(())
    }

    /// Refuses to start a second process of this member: one that answers at the old address of a moved
    /// member works with a copy of the log, and both would vote.
    async fn refuse_second_process(&self, member: &Member) -> Result<(), String> {
        let status = self.status();
        let before = status.members.into_iter().find(|(id, ..)| *id == self.id).map(|(_, before, _)| before);
        let Some(before) = before.filter(|before| before.address != member.address) else { return Ok(()) };
        let body = transport::encode(&Request::Identity);
        let answer = self.transport.call(&before, Channel::Requests, body, IDENTITY_TIME_MAX).await;
        match answer.map(|answer| transport::decode::<NodeId>(&answer)) {
            Ok(Ok(id)) if id == self.id => Err(format!(
                "this member runs already, as {:?} at {}: a directory and its copy are one member, and only one of them \
                 may run; stop that one, or start this one as another member with an empty directory",
                before.name, before.address
            )),
            // No answer, or another member that has the address now.
            _ => Ok(()),
        }
    }

    /// Makes another reachable, up-to-date voter the leader, if this member leads; gives up after `limit`.
    pub async fn transfer_leadership(&self, limit: Duration) {
        if !self.leads() || self.is_alone() {
            return;
        }
        let deadline = tokio::time::Instant::now() + limit;
        while self.leads() {
            let transfer =
                async { self.service.transfer_to_heir(&self.service.lock_reconfiguration().await).await };
            match tokio::time::timeout_at(deadline, transfer).await {
                Ok(Ok(_)) => {}
                Ok(Err(why)) if tokio::time::Instant::now() >= deadline => {
                    tracing::warn!(%why, "cannot transfer leadership: the voters elect a leader");
                    return;
                }
                Ok(Err(_)) => self.next_leader().await,
                Err(_) => {
                    tracing::warn!("no metaserver took leadership over in time: the voters elect a leader");
                    return;
                }
            }
        }
    }

    /// True if the member's machine says that its process is dead. Waits for a moment; a member that does not
    /// answer is not dead.
    pub async fn process_is_dead(&self, member: &Member) -> bool {
        self.transport.refuses_connections(member).await
    }

    /// The other members, as this one knows them.
    #[must_use]
    pub fn other_members(&self) -> Vec<Member> {
        let metrics = self.service.raft.metrics().borrow_watched().clone();
        let membership = metrics.membership_config.membership();
        let others = membership.nodes().filter(|(id, _)| **id != self.id);
        others.map(|(_, member)| member.clone()).collect()
    }
}
