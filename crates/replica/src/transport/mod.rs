//! Transport between members, and the messages that it carries.

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

/// Future answer of a call.
pub type CallFuture = Pin<Box<dyn Future<Output = Result<Bytes, Unreachable>> + Send>>;

/// Future answer of a probe.
pub type ProbeFuture = Pin<Box<dyn Future<Output = bool> + Send>>;

/// Transport of calls to other members, and of their answers. Calls on one [`Channel`] to one member arrive
/// in order.
pub trait Transport: Send + Sync + 'static {
    /// Calls `to`, whose [`crate::Replica::serve`] answers `body`; fails after `limit`.
    fn call(&self, to: &Member, channel: Channel, body: Bytes, limit: Duration) -> CallFuture;

    /// True if the machine of `to` refuses the connection: the member's process is dead. False if nothing
    /// answers.
    fn refuses_connections(&self, _to: &Member) -> ProbeFuture {
        Box::pin(async { false })
    }
}

/// Channel of a call; each has its own connections, so that small urgent messages do not wait behind large
/// ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Channel {
    /// Entries of the log.
    Entries,
    /// Heartbeats and votes.
    Heartbeats,
    /// Snapshots.
    Snapshots,
    /// Forwarded commands and reads; the only calls from outside the thread of consensus.
    Requests,
}

/// Reason that a call has no answer.
#[derive(Debug, Clone, Error)]
pub enum Unreachable {
    /// The call was not sent: nothing was carried out.
    #[error("{0}")]
    NotSent(String),
    /// The call may or may not have been carried out.
    #[error("{0}")]
    NoAnswer(String),
}

/// Transport of a group with one member.
impl Transport for () {
    fn call(&self, to: &Member, _: Channel, _: Bytes, _: Duration) -> CallFuture {
        let why = format!("{} at {}: this member has no network", to.name, to.address);
        Box::pin(async move { Err(Unreachable::NotSent(why)) })
    }
}

/// Message of consensus to one member.
#[derive(Serialize, Deserialize)]
pub(crate) enum Consensus {
    Append(AppendEntriesRequest<Types>),
    Vote(VoteRequest<Types>),
    PreVote(VoteRequest<Types>),
    TransferLeader(TransferLeaderRequest<Types>),
    /// Begins a snapshot, in place of one that was being sent.
    SnapshotBegin(SnapshotId),
    SnapshotChunk {
        id: SnapshotId,
        number: u64,
        chunk: Bytes,
    },
    /// Starts the install of the snapshot; answered at once.
    SnapshotEnd {
        vote: Vote,
        meta: SnapshotMeta,
        pairs: u64,
    },
    /// Asks for the state of the install.
    SnapshotInstallState(SnapshotId),
}

/// Call to a member.
#[derive(Serialize, Deserialize)]
pub(crate) enum Request {
    /// For the member with this id only. A member that replaced one with a lost log may have its address, but
    /// none of its entries, and must not vote in its place.
    Consensus(NodeId, Consensus),
    /// Proposes a command, to the leader.
    Propose(Change),
    /// Asks for the read index of a read by this member, to the leader.
    Read(u64),
    /// Joins as a voter, or updates the address of a member, at the leader.
    Join(u64, Member),
    /// Question of one observer to another.
    Ask(Bytes),
    /// Joins as a learner, at the leader.
    JoinAsLearner(u64, Member),
    /// Changes the membership, at the leader.
    Change { change: MemberChange, force: bool },
    /// Tells a member with this id that it was removed.
    Removed(u64),
    /// Asks whether member `id`, whose last known membership has index `at`, was removed.
    WasRemoved { id: u64, at: u64 },
    /// Asks for the member's id.
    Identity,
    /// Asks whether the member has capacity to lead.
    HasCapacity,
    /// Asks for the last applied index and the digest of the state there.
    Digest,
    /// Asks for the digest at an index, if it is still known.
    DigestAt(u64),
}

/// Version of these messages and of the commands in them. A message of another version is refused. Raise the
/// version when an existing message, command or reply changes its encoding. A variant that is added at the
/// end is not read by older members, which then stop: see [`has_entries`]. Raise it, too, when a recorded
/// reply is to be found under another request id than before, or the state machine does otherwise with a command.
pub(crate) const VERSION: u8 = 28;

/// Encodes a message: the version, then postcard.
pub(crate) fn encode<T: Serialize>(message: &T) -> Bytes {
    match postcard::to_extend(message, vec![VERSION]) {
        Ok(bytes) => bytes.into(),
        // Our types are of kinds that postcard can encode.
        Err(_) => Bytes::new(),
    }
}

/// Decodes a message of [`encode`].
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

/// True if an undecodable message has entries for the log of member `id`.
pub(crate) fn has_entries(bytes: &[u8], id: NodeId) -> bool {
    // postcard begins `Request::Consensus(id, Consensus::Append(..))` with both variants' numbers, which are
    // 0.
    let head = bytes.split_first().and_then(|(version, body)| {
        let (head, _) = postcard::take_from_bytes::<(u32, NodeId, u32)>(body).ok()?;
        Some((*version, head))
    });
    head == Some((VERSION, (0, id, 0)))
}
