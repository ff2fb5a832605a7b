//! What members say to each other, and what carries it.

pub(crate) mod address_book;
pub(crate) mod group_transport;
pub(crate) mod members_file;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use openraft::raft::{AppendEntriesRequest, TransferLeaderRequest, VoteRequest};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::types::{Change, Member, MemberChange, NodeId, SnapshotId, SnapshotMeta, Types, Vote};

/// A call that has its answer later.
pub type CallFuture = Pin<Box<dyn Future<Output = Result<Bytes, Unreachable>> + Send>>;

/// A question about a member that has its answer later.
pub type ProbeFuture = Pin<Box<dyn Future<Output = bool> + Send>>;

/// Carries calls to other members, and their answers back. Calls on one [`Channel`] to one member arrive in the order in
/// which they were made.
pub trait Transport: Send + Sync + 'static {
    /// Has `to` carry out `body`, as its [`crate::Replica::serve`] does; gives up after `limit`.
    fn call(&self, to: &Member, channel: Channel, body: Bytes, limit: Duration) -> CallFuture;

    /// Whether the machine of `to` answers that nobody listens there: its process is dead. Not so when nothing answers.
    fn refuses_connections(&self, _to: &Member) -> ProbeFuture {
        Box::pin(async { false })
    }
}

/// Connections of their own, so that what is small and urgent does not wait behind what is large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Channel {
    /// Entries of the log.
    Entries,
    /// Heartbeats and votes.
    Heartbeats,
    /// Snapshots.
    Snapshots,
    /// Commands and reads that a member passes on to its leader; the only ones made outside the thread of consensus.
    Requests,
}

/// Why a call had no answer.
#[derive(Debug, Clone, Error)]
pub enum Unreachable {
    /// It was not sent: nothing was carried out.
    #[error("{0}")]
    NotSent(String),
    /// It may or may not have been carried out.
    #[error("{0}")]
    NoAnswer(String),
}

/// Nobody: for a group that has one member.
impl Transport for () {
    fn call(&self, to: &Member, _: Channel, _: Bytes, _: Duration) -> CallFuture {
        let why = format!("{} at {}: this member has no network", to.name, to.address);
        Box::pin(async move { Err(Unreachable::NotSent(why)) })
    }
}

/// What consensus says to one member.
#[derive(Serialize, Deserialize)]
pub(crate) enum Consensus {
    Append(AppendEntriesRequest<Types>),
    Vote(VoteRequest<Types>),
    PreVote(VoteRequest<Types>),
    TransferLeader(TransferLeaderRequest<Types>),
    /// A snapshot begins, in place of what was sent of another.
    SnapshotBegin(SnapshotId),
    SnapshotChunk {
        id: SnapshotId,
        number: u64,
        chunk: Bytes,
    },
    /// It is to be put in place; answered at once.
    SnapshotEnd {
        vote: Vote,
        meta: SnapshotMeta,
        pairs: u64,
    },
    /// Is this snapshot in place?
    SnapshotInstallState(SnapshotId),
}

/// A call.
#[derive(Serialize, Deserialize)]
pub(crate) enum Request {
    /// For the member with this id, and not for whoever has its address by now: one that has taken the place of a member
    /// whose log was lost has nothing in it, and must not vote for what the other one had acknowledged.
    Consensus(NodeId, Consensus),
    /// A command, for the leader.
    Propose(Change),
    /// Up to where must be applied what a read of this member may show? For the leader.
    Read(u64),
    /// Who wants to become a member, or a member that moved. For the leader.
    Join(u64, Member),
    /// What the users of the replicas say to each other.
    Ask(Bytes),
    /// Who wants to become a learner, and stay one. For the leader.
    JoinAsLearner(u64, Member),
    /// What people want changed. For the leader.
    Change { change: MemberChange, force: bool },
    /// The one that is told this belongs no longer, if it has this id.
    Removed(u64),
    /// Does this member belong no longer, whose last word about members has this index?
    WasRemoved { id: u64, at: u64 },
    /// Which member is this?
    Identity,
    /// Has the member that is told this room for more?
    HasCapacity,
    /// The last index that the member has applied, and the digest of its state there.
    Digest,
    /// The digest of its state at an index, if it still knows it.
    DigestAt(u64),
}

/// The version of these messages, and of the commands in them; a member that speaks another is told so, and nothing that it says
/// is carried out. It is raised when a message, a command or a reply that there is already is written in another way. A new one at
/// the end of its enumeration is not read by older members, which stop and say so: see [`has_entries`].
pub(crate) const VERSION: u8 = 6;

/// As it goes over the network: the version, then postcard.
pub(crate) fn encode<T: Serialize>(message: &T) -> Bytes {
    match postcard::to_extend(message, vec![VERSION]) {
        Ok(bytes) => bytes.into(),
        // Ours are all of kinds that postcard knows.
        Err(_) => Bytes::new(),
    }
}

/// What [`encode`] made, at the other end.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    match bytes.split_first() {
        Some((&VERSION, body)) => match postcard::take_from_bytes(body) {
            Ok((message, [])) => Ok(message),
            Ok(_) => Err("a malformed message, or one of a newer version: there is more in it".into()),
            Err(e) => Err(format!("a malformed message, or one of a newer version: {e}")),
        },
        Some((version, _)) => Err(format!(
            "messages of version {version}, where this heorot speaks {VERSION}: install the same version on all metaservers"
        )),
        None => Err("an empty message".into()),
    }
}

/// Whether a message that cannot be read is one for member `id` with entries for its log.
pub(crate) fn has_entries(bytes: &[u8], id: NodeId) -> bool {
    // As postcard writes `Request::Consensus(id, Consensus::Append(..))`: the numbers of both variants are 0.
    let head = bytes.split_first().and_then(|(version, body)| {
        let (head, _) = postcard::take_from_bytes::<(u32, NodeId, u32)>(body).ok()?;
        Some((*version, head))
    });
    head == Some((VERSION, (0, id, 0)))
}
