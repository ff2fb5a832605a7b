//! openraft's network: sends its messages as calls of our own [`Transport`].

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use openraft::base::{BoxFuture, BoxStream};
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendError, StreamAppendResult,
    TransferLeaderRequest, TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::storage::Snapshot as RaftSnapshot;
use openraft::{LogIdOptionExt, OptionalSend};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use crate::read::read_lease::ReadLeaseGrants;
use crate::state::install::InstallState;
use crate::state::snapshot::{Chunks, Snapshot};
use crate::transport::address_book::AddressBook;
use crate::transport::{self, Channel, Consensus, Request, Transport};
use crate::types::{LeaderId, LogId, Member, NodeId, SnapshotId, Types, Vote};

/// Batches of entries in flight to one follower: while it writes one, the next arrives.
const IN_FLIGHT_MAX: usize = 8;
/// Time-out of a batch of entries: a follower with a stalled disk gets them again. A broken connection ends
/// the call at once.
const ENTRIES_TIME_MAX: Duration = Duration::from_secs(5);
/// Time-out of one chunk of a snapshot.
const CHUNK_TIME_MAX: Duration = Duration::from_secs(10);
/// Time-out of one question for the state of an install; the member answers within a second.
const INSTALL_STATE_TIME_MAX: Duration = Duration::from_secs(4);
/// Retry interval of that question while the member is unreachable: it may be starting, without the snapshot.
const INSTALL_STATE_RETRY_AFTER: Duration = Duration::from_secs(1);
/// Time-out of the whole install.
const INSTALL_TIME_MAX: Duration = Duration::from_secs(600);

/// Creates connections to other members.
pub(crate) struct Network {
    pub transport: Arc<dyn Transport>,
    /// Addresses of the members.
    pub address_book: AddressBook,
    pub grants: Arc<ReadLeaseGrants>,
}

impl Network {
    fn peer(&self, id: NodeId, member: &Member, channel: Channel) -> Peer {
        let (transport, address_book) = (Arc::clone(&self.transport), self.address_book.clone());
        let (grants, member) = (Arc::clone(&self.grants), Arc::new(member.clone()));
        Peer { transport, address_book, grants, id, member, channel }
    }
}

impl RaftNetworkFactory<Types> for Network {
    type Network = Peer;

    async fn new_client(&mut self, id: NodeId, member: &Member) -> Peer {
        self.peer(id, member, Channel::Entries)
    }

    async fn new_heartbeat_client(&mut self, id: NodeId, member: &Member) -> Peer {
        self.peer(id, member, Channel::Heartbeats)
    }

    async fn new_snapshot_client(&mut self, id: NodeId, member: &Member) -> Peer {
        self.peer(id, member, Channel::Snapshots)
    }
}

/// Connection to one other member, for one channel.
#[derive(Clone)]
pub(crate) struct Peer {
    transport: Arc<dyn Transport>,
    address_book: AddressBook,
    id: NodeId,
    /// Member as it was when the connection was created; it may have moved.
    member: Arc<Member>,
    grants: Arc<ReadLeaseGrants>,
    channel: Channel,
}

type Failure = RPCError<Types>;

fn unreachable(why: impl ToString) -> Failure {
    RPCError::Unreachable(Unreachable::from_string(why))
}

impl Peer {
    fn call<R: DeserializeOwned>(
        &self,
        channel: Channel,
        message: Consensus,
        limit: Duration,
    ) -> impl Future<Output = Result<R, Failure>> + Send + 'static + use<R> {
        let member = self.address_book.member(self.id, &self.member);
        let body = transport::encode(&Request::Consensus(self.id, message));
        let carried = self.transport.call(&member, channel, body, limit);
        async move {
            let answer = carried.await.map_err(unreachable)?;
            transport::decode(&answer).map_err(unreachable)
        }
    }

    async fn send_snapshot(
        &self,
        vote: Vote,
        snapshot: RaftSnapshotOf,
    ) -> Result<SnapshotResponse<Types>, Failure> {
        let RaftSnapshot { meta, snapshot } = snapshot;
        let Snapshot::Taken(view) = snapshot else {
            return Err(unreachable("a snapshot that was received is not sent on"));
        };
        tracing::info!(to = %self.member.name, upto = ?meta.last_log_id.map(|id| id.index), "sending a snapshot to a metaserver");
        let mut chunks = Chunks::new(view);
        let id = (vote, meta.last_log_id);
        let () = self.call(self.channel, Consensus::SnapshotBegin(id), CHUNK_TIME_MAX).await?;
        let mut number = 0;
        while let Some(chunk) = chunks.next_chunk().map_err(unreachable)? {
            let message = Consensus::SnapshotChunk { id, number, chunk: Bytes::from(chunk) };
            let () = self.call(self.channel, message, CHUNK_TIME_MAX).await?;
            number += 1;
        }
        let message = Consensus::SnapshotEnd { vote, meta, pairs: chunks.pairs() };
        let () = self.call(self.channel, message, CHUNK_TIME_MAX).await?;
        let placed = tokio::time::timeout(INSTALL_TIME_MAX, self.wait_for_install(id)).await;
        placed.unwrap_or_else(|_| Err(unreachable("the install of a snapshot takes too long")))
    }

    /// Asks until the snapshot is installed, or the member does not know of it.
    async fn wait_for_install(&self, id: SnapshotId) -> Result<SnapshotResponse<Types>, Failure> {
        loop {
            match self.call(self.channel, Consensus::SnapshotInstallState(id), INSTALL_STATE_TIME_MAX).await {
                Ok(InstallState::Done(answer)) => return Ok(answer),
                Ok(InstallState::InProgress) => {}
                Ok(InstallState::Unknown(why)) => return Err(unreachable(why)),
                Err(error) => {
                    tracing::debug!(metaserver = %self.member.name, %error, "cannot learn the state of a snapshot install, asking again");
                    tokio::time::sleep(INSTALL_STATE_RETRY_AFTER).await;
                }
            }
        }
    }
}

/// Last log ids of the requests whose answers are not passed to openraft yet, in order.
///
/// openraft takes an answer for one to all requests that end at the same log id, and takes the time at which
/// the last of them was sent as the time of contact. A request without entries, which only carries the commit
/// index, ends at the same log id as the one before it. It would count as answered by a follower that has not
/// answered since, and a read that began in between would be confirmed by a follower of another leader. So
/// the earlier answer is dropped: the later one says the same, and is true for its own time.
#[derive(Clone, Default)]
struct Sent(Arc<Mutex<VecDeque<Option<LogId>>>>);

impl Sent {
    fn push(&self, last: Option<LogId>) {
        self.0.lock().push_back(last);
    }

    /// Removes the first request, which is answered. True if the next one ends at the same log id.
    fn answered(&self) -> bool {
        let mut sent = self.0.lock();
        let last = sent.pop_front();
        last.is_some() && sent.front() == last.as_ref()
    }
}

type RaftSnapshotOf = RaftSnapshot<LeaderId, u64, Member, Snapshot>;

impl RaftNetworkV2<Types> for Peer {
    type SnapshotData = Snapshot;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, Failure> {
        self.grants.note_leadership(rpc.vote.leader_id);
        self.grants.note_told_next(rpc.leader_commit.next_index());
        self.call(self.channel, Consensus::Append(rpc), option.hard_ttl()).await
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        _option: RPCOption,
    ) -> BoxFuture<'s, Result<BoxStream<'s, Result<StreamAppendResult<Types>, Failure>>, Failure>>
    where
        S: Stream<Item = AppendEntriesRequest<Types>> + OptionalSend + Unpin + 'static,
    {
        let peer = self.clone();
        let sent = Sent::default();
        let asked = sent.clone();
        let answers = input.map(move |request| {
            let prev = request.prev_log_id;
            let last = request.entries.last().map(|entry| entry.log_id).or(prev);
            asked.push(last);
            let leader = request.vote.leader_id;
            peer.grants.note_leadership(leader);
            peer.grants.note_told_next(request.leader_commit.next_index());
            let answer = peer.call(peer.channel, Consensus::Append(request), ENTRIES_TIME_MAX);
            let (grants, id, counts) = (Arc::clone(&peer.grants), peer.id, peer.channel == Channel::Entries);
            async move {
                let answer: Result<AppendEntriesResponse<Types>, Failure> = answer.await;
                if counts {
                    grants.note_reached(id, answer.is_ok());
                }
                let answer = answer?;
                let result = answer.into_stream_result(prev, last);
                match &result {
                    Ok(matched) => {
                        let next = matched.next_index();
                        grants.note_matched(leader, id, next);
                        if counts {
                            grants.wait_for_holders(leader, id, next).await;
                        }
                    }
                    Err(StreamAppendError::Conflict(_)) => grants.note_matched(leader, id, 0),
                    Err(StreamAppendError::HigherVote(_)) => {}
                }
                Ok(result)
            }
        });
        // In order, with several in flight.
        let answers = answers.buffered(IN_FLIGHT_MAX).filter_map(move |answer| {
            let says_it_again = sent.answered();
            std::future::ready(Some(answer).filter(|answer| !says_it_again || !matches!(answer, Ok(Ok(_)))))
        });
        let answers: BoxStream<'s, _> = Box::pin(answers);
        Box::pin(async move { Ok(answers) })
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, Failure> {
        self.call(Channel::Heartbeats, Consensus::Vote(rpc), option.hard_ttl()).await
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, Failure> {
        self.call(Channel::Heartbeats, Consensus::PreVote(rpc), option.hard_ttl()).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: RaftSnapshotOf,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        tokio::select! {
            biased;
            closed = cancel => Err(StreamingError::Closed(closed)),
            answer = self.send_snapshot(vote, snapshot) => answer.map_err(|failure| {
                StreamingError::Unreachable(Unreachable::from_string(failure))
            }),
        }
    }

    async fn transfer_leader(
        &mut self,
        req: TransferLeaderRequest<Types>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, Failure> {
        self.call(Channel::Heartbeats, Consensus::TransferLeader(req), option.hard_ttl()).await
    }
}

#[cfg(test)]
mod tests {
    use store::{MemoryStore, Store};

    use super::*;
    use crate::transport::{CallFuture, Unreachable as NoWord};
    use crate::types::SnapshotMeta;

    fn vote() -> Vote {
        Vote::new_committed(1, 1)
    }

    /// Member that takes a snapshot and then gives the listed answers. None: no answer, as after a power
    /// failure.
    struct Member(Mutex<VecDeque<Option<InstallState>>>);

    impl Transport for Member {
        fn call(&self, _: &crate::types::Member, _: Channel, body: Bytes, limit: Duration) -> CallFuture {
            let answer = match transport::decode(&body).unwrap() {
                Request::Consensus(2, Consensus::SnapshotInstallState(_)) => {
                    self.0.lock().pop_front().unwrap()
                }
                _ => return Box::pin(async { Ok(transport::encode(&())) }),
            };
            Box::pin(async move {
                match answer {
                    Some(placed) => Ok(transport::encode(&placed)),
                    None => {
                        tokio::time::sleep(limit).await;
                        Err(NoWord::NoAnswer("no answer in time".into()))
                    }
                }
            })
        }
    }

    async fn sent(answers: impl IntoIterator<Item = Option<InstallState>>) -> (bool, Duration) {
        let member = Arc::new(Member(Mutex::new(answers.into_iter().collect())));
        let transport = Arc::clone(&member) as Arc<dyn Transport>;
        let mut network = Network {
            transport,
            address_book: AddressBook::default(),
            grants: Arc::new(ReadLeaseGrants::new(1, true)),
        };
        let mut peer = network.new_snapshot_client(2, &crate::types::Member::default()).await;
        let view = MemoryStore::new().snapshot().unwrap();
        let snapshot = RaftSnapshot { meta: SnapshotMeta::default(), snapshot: Snapshot::Taken(view.into()) };
        let began = tokio::time::Instant::now();
        let option = RPCOption::new(Duration::from_secs(1));
        let outcome = peer.full_snapshot(vote(), snapshot, std::future::pending(), option).await;
        assert!(member.0.lock().is_empty(), "it is asked until it has said all");
        (outcome.is_ok(), began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_that_loses_its_power_with_a_snapshot_is_soon_sent_another() {
        let (placed, took) =
            sent([Some(InstallState::InProgress), None, Some(InstallState::Unknown("new".into()))]).await;
        assert!(!placed && took < Duration::from_secs(10), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_snapshot_that_takes_long_to_put_in_place_is_waited_for() {
        let done = || Some(InstallState::Done(SnapshotResponse::new(vote())));
        let slow = std::iter::repeat_with(|| Some(InstallState::InProgress)).take(300);
        assert!(sent(slow.chain([None, done()])).await.0);
        assert!(sent([done()]).await.0);
    }

    /// Member that answers one call for each permit.
    struct Slow(tokio::sync::Semaphore);

    impl Transport for Arc<Slow> {
        fn call(&self, _: &crate::types::Member, _: Channel, _: Bytes, _: Duration) -> CallFuture {
            let member = Arc::clone(self);
            Box::pin(async move {
                member.0.acquire().await.unwrap().forget();
                Ok(transport::encode(&AppendEntriesResponse::<Types>::Success))
            })
        }
    }

    fn append(prev: u64, last: u64, committed: u64) -> AppendEntriesRequest<Types> {
        let id = |index: u64| LogId::new(vote().leader_id, index);
        let entries = (prev + 1..=last).map(|index| openraft::entry::RaftEntry::new_blank(id(index)));
        AppendEntriesRequest {
            vote: vote(),
            prev_log_id: Some(id(prev)),
            entries: entries.collect(),
            leader_commit: Some(id(committed)),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_not_taken_for_the_answer_to_what_was_sent_later() {
        let member = Arc::new(Slow(tokio::sync::Semaphore::new(0)));
        let transport = Arc::new(Arc::clone(&member)) as Arc<dyn Transport>;
        let grants = Arc::new(ReadLeaseGrants::new(1, true));
        let mut network = Network { transport, address_book: AddressBook::default(), grants };
        let mut peer = network.new_client(2, &crate::types::Member::default()).await;
        let (send, receive) = tokio::sync::mpsc::unbounded_channel();
        let requests = futures_util::stream::unfold(receive, |mut receive| async {
            receive.recv().await.map(|request| (request, receive))
        });
        let option = RPCOption::new(Duration::from_secs(1));
        let mut answers = peer.stream_append(Box::pin(requests), option).await.unwrap();
        let mut next = async || tokio::time::timeout(Duration::from_secs(1), answers.next()).await.ok();
        let has = |index: u64| Ok(Some(LogId::new(vote().leader_id, index)));

        send.send(append(4, 5, 4)).unwrap();
        send.send(append(5, 5, 5)).unwrap();
        assert!(next().await.is_none(), "it has answered nothing");
        member.0.add_permits(1);
        assert!(next().await.is_none(), "it was not heard since the second request");
        member.0.add_permits(1);
        assert_eq!(next().await.unwrap().unwrap().unwrap(), has(5));

        send.send(append(5, 5, 5)).unwrap();
        send.send(append(5, 6, 5)).unwrap();
        member.0.add_permits(1);
        assert_eq!(next().await.unwrap().unwrap().unwrap(), has(5), "the second request asks for more");
        member.0.add_permits(1);
        assert_eq!(next().await.unwrap().unwrap().unwrap(), has(6));
    }
}
