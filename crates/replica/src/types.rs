//! Types of consensus: its commands are those of the name space, and its members have names and addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use namespace::{Proposal, Reply};
use openraft::type_config::alias;
use serde::{Deserialize, Serialize};

openraft::declare_raft_types!(
    /// Type configuration of openraft.
    pub(crate) Types:
        D = Change,
        R = Reply,
        NodeId = u64,
        Node = Member,
        AsyncRuntime = crate::runtime::Runtime,
);

pub(crate) type LogId = alias::LogIdOf<Types>;
pub(crate) type LeaderId = alias::LeaderIdOf<Types>;
pub(crate) type Vote = alias::VoteOf<Types>;
pub(crate) type Entry = alias::EntryOf<Types>;
pub(crate) type Payload = alias::EntryPayloadOf<Types>;
pub(crate) type StoredMembership = alias::StoredMembershipOf<Types>;
pub(crate) type SnapshotMeta = alias::SnapshotMetaOf<Types>;
pub(crate) type Membership = openraft::Membership<u64, Member>;
pub(crate) type Metrics = openraft::RaftMetrics<Types>;

/// Id of a snapshot: the vote of the leader that sent it, and its last entry.
pub(crate) type SnapshotId = (Vote, Option<LogId>);

/// Id of a member. Ids are never reused: a member that lost its log returns with a new id.
pub type NodeId = u64;

/// Member of the group, voter or learner.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Member {
    /// Name for operators.
    pub name: String,
    /// Address for other members; its form is known to [`crate::Transport`].
    pub address: String,
    /// Address for clients and data servers.
    pub serves: String,
}

/// Role of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberRole {
    /// Votes, and counts for majorities.
    Voter,
    /// Receives all entries and serves clients; no majority waits for it.
    Learner,
}

/// Membership change that an operator requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberChange {
    /// Removes a member, which then stops. Its id is not used again.
    Remove(NodeId),
    /// Makes a learner a voter, once it has all entries.
    Promote(NodeId),
    /// Makes a voter a learner.
    Demote(NodeId),
    /// Makes a voter the leader.
    Lead(NodeId),
}

impl MemberChange {
    /// Member that is changed.
    #[must_use]
    pub fn member(self) -> NodeId {
        match self {
            Self::Remove(id) | Self::Promote(id) | Self::Demote(id) | Self::Lead(id) => id,
        }
    }
}

/// Command on its way through log and network; cloning is cheap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Change(pub Arc<Proposal>);

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0.command)
    }
}

/// Members of the group as stored in the log and in the store. Not openraft's type: data on disk outlive a
/// library's version.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Members {
    /// Voters; two sets during a joint configuration.
    voters: Vec<BTreeSet<NodeId>>,
    /// All members, learners included.
    all: BTreeMap<NodeId, Member>,
}

impl From<&Membership> for Members {
    fn from(membership: &Membership) -> Self {
        let all = membership.nodes().map(|(id, member)| (*id, member.clone())).collect();
        Self { voters: membership.get_joint_config().clone(), all }
    }
}

impl TryFrom<Members> for Membership {
    type Error = String;

    fn try_from(members: Members) -> Result<Self, String> {
        if members == Members::default() {
            return Ok(Membership::default());
        }
        Membership::new(members.voters, members.all).map_err(|e| e.to_string())
    }
}
