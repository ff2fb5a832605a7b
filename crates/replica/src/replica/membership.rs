//! A member joins its group, takes part in it, and hands over.

use std::time::Duration;

use openraft::type_config::async_runtime::WatchReceiver;

use super::{FORWARD_TIME_MAX, Replica, ReplicaStatus};
use crate::membership::VOTERS_MAX;
use crate::service::ChangeError;
use crate::transport::{self, Channel, Request};
use crate::types::{Member, MemberChange, MemberRole, NodeId};

/// For a change of members to find a leader.
const CHANGE_TIME_MAX: Duration = Duration::from_secs(20);
/// A member that lives answers at once which one it is.
const IDENTITY_TIME_MAX: Duration = Duration::from_secs(3);
/// Between two tries to be taken in.
const JOIN_RETRY_AFTER: Duration = Duration::from_millis(500);

impl Replica {
    /// Asks the member at `address` to be taken in, and waits until this member has all, and a vote if it is to have one
    /// and there are not [`VOTERS_MAX`] yet.
    ///
    /// # Errors
    /// What the group said.
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

    /// Has the group go on without a member whose log was lost, which this one takes the place of; then this one can
    /// [`Replica::join`]. `address` is any member's that is still there.
    ///
    /// The lost one never votes again, so nothing that it had acknowledged is missed: who is elected until it is gone has
    /// the votes of a majority that it is not of.
    ///
    /// # Errors
    /// What the group said.
    pub async fn remove_lost(&self, address: &str, lost: NodeId, limit: Duration) -> Result<(), String> {
        let (name, address) = (address.to_owned(), address.to_owned());
        let to = Member { name, address, serves: String::new() };
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            // Perhaps it was done, and the answer lost.
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

    /// Has a request about members carried out by who leads, as `first` names it; again until `limit` is over.
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
                    "it does not lead".to_owned()
                }
                Ok(Err(ChangeError::NotLeader(None))) => {
                    to = first.clone();
                    "nobody leads".to_owned()
                }
                Ok(Err(ChangeError::Permanent(why))) => return Err(why),
                Ok(Err(ChangeError::Failed(why))) => why,
                // Who was named may be dead: a follower names its leader for a moment longer.
                Err(why) => {
                    to = first.clone();
                    why
                }
            };
            if tokio::time::Instant::now() >= deadline {
                return Err(why);
            }
            tracing::info!(to = %to.address, %why, "not taken in yet");
            tokio::time::sleep(JOIN_RETRY_AFTER).await;
        }
    }

    /// Changes who belongs, who votes or who leads; at whoever leads. What would leave too few voters that live is refused
    /// unless `force`.
    ///
    /// # Errors
    /// Why not, in words.
    pub async fn change_members(&self, change: MemberChange, force: bool) -> Result<(), String> {
        let deadline = tokio::time::Instant::now() + CHANGE_TIME_MAX;
        let mut may_be_done = false;
        loop {
            let outcome = match self.service.change(change, force).await {
                Err(ChangeError::NotLeader(Some(leader))) => {
                    let request = Request::Change { change, force };
                    let answer = self.call_leader(&leader, &request).await;
                    let answer: Result<Result<(), ChangeError>, String> =
                        answer.map_err(|e| e.to_string()).and_then(|answer| transport::decode(&answer));
                    // Asked again, it says whether it was done.
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
                    return Err("nobody leads: too few voters can be reached".into());
                }
                (Err(ChangeError::NotLeader(_)), _) => {
                    may_be_done = true;
                    self.next_leader().await;
                }
            }
        }
    }

    /// Whether this member was removed from its group: then it has failed, and will not be taken back.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        *self.is_removed.get()
    }

    /// Tells the group where this member is and how it takes part, if it does not know.
    ///
    /// # Errors
    /// What the group said; that another member has the name or the address; that this member runs already, elsewhere.
    pub async fn announce(&self, member: Member, role: MemberRole) -> Result<(), String> {
        if let Some(why) = self.service.conflict(self.id, &member) {
            return Err(why);
        }
        self.refuse_second_process(&member).await?;
        // A learner may have been interrupted on its way to a vote.
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
                tracing::debug!(%why, "not introduced yet");
            }
            self.next_leader().await;
        }
        Ok(())
    }

    /// A member that moved is not where it was. Somebody there who is this member, too, works with a copy of its log: both
    /// would vote.
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
            // Nobody, or another member that has the address now.
            _ => Ok(()),
        }
    }

    /// Has another member lead, if this one does and there is one that lives and has what this one has; gives up after
    /// `limit`.
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
                    tracing::warn!(%why, "leadership is not handed over");
                    return;
                }
                Ok(Err(_)) => self.next_leader().await,
                Err(_) => {
                    tracing::warn!("no other metaserver took over in time: they elect one");
                    return;
                }
            }
        }
    }

    /// Whether the machine of a member says that its process is dead. Takes a moment; who does not answer is not dead.
    pub async fn process_is_dead(&self, member: &Member) -> bool {
        self.transport.refuses_connections(member).await
    }

    /// The other members, as they are known here.
    #[must_use]
    pub fn other_members(&self) -> Vec<Member> {
        let metrics = self.service.raft.metrics().borrow_watched().clone();
        let membership = metrics.membership_config.membership();
        let others = membership.nodes().filter(|(id, _)| **id != self.id);
        others.map(|(_, member)| member.clone()).collect()
    }
}
