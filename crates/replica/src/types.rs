//! What consensus is about here: commands of the name space, and members that have names and addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use namespace::{Proposal, Reply};
use openraft::type_config::alias;
use serde::{Deserialize, Serialize};

openraft::declare_raft_types!(
    /// The types that openraft is used with.
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

/// Which snapshot: the leader that sent it, and the last entry that is in it.
pub(crate) type SnapshotId = (Vote, Option<LogId>);

/// Tells the members of a group apart. Never used again: a member that lost its log comes back under another.
pub type NodeId = u64;

/// A member of the group, voter or learner.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Member {
    /// For people.
    pub name: String,
    /// Where the others reach it, for [`crate::Transport`] to understand.
    pub address: String,
    /// Where it serves: clients mount there, and data servers register.
    pub serves: String,
}

/// How a member takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberRole {
    /// It votes, and counts where a majority is needed.
    Voter,
    /// It has everything, and serves; nobody waits for it.
    Learner,
}

/// A change that people ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberChange {
    /// It belongs no longer, and stops. Its id is not used again.
    Remove(NodeId),
    /// A learner becomes a voter, once it has what the others have.
    Promote(NodeId),
    /// A voter becomes a learner.
    Demote(NodeId),
    /// It is to lead.
    Lead(NodeId),
}

impl MemberChange {
    /// Whom it is about.
    #[must_use]
    pub fn member(self) -> NodeId {
        match self {
            Self::Remove(id) | Self::Promote(id) | Self::Demote(id) | Self::Lead(id) => id,
        }
    }
}

/// A command on its way through log and network; a copy costs nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Change(pub Arc<Proposal>);

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0.command)
    }
}

/// Who belongs to the group, as it stands in the log and in the store: openraft's type with the words of our own, since
/// what is on a disk outlives a library's version.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Members {
    /// The voters; two sets while the group goes from the first to the second.
    voters: Vec<BTreeSet<NodeId>>,
    /// All, with the learners.
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
