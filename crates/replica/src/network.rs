//! openraft's network: what it sends, as calls of our own [`Transport`].

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use openraft::OptionalSend;
use openraft::base::{BoxFuture, BoxStream};
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::storage::Snapshot as RaftSnapshot;
use serde::de::DeserializeOwned;

use crate::snapshot::{Chunks, Snapshot};
use crate::transport::{self, Channel, Request, Transport};
use crate::types::{LeaderId, Member, Types, Vote};

/// Batches of entries on their way to one follower: while one is written there the next arrives.
const IN_FLIGHT_MAX: usize = 8;
/// A follower whose disk stands still for so long is sent to again. A connection that broke is noticed at once.
const ENTRIES_TIME_MAX: Duration = Duration::from_secs(5);
/// For one chunk of a snapshot, and for putting all of it in place at the end.
const CHUNK_TIME_MAX: Duration = Duration::from_secs(10);
const INSTALL_TIME_MAX: Duration = Duration::from_secs(600);

/// Makes the connections to the others.
pub(crate) struct Network(pub Arc<dyn Transport>);

impl RaftNetworkFactory<Types> for Network {
    type Network = Peer;

    async fn new_client(&mut self, _: u64, member: &Member) -> Peer {
        Peer { transport: Arc::clone(&self.0), member: member.clone(), channel: Channel::Entries }
    }

    async fn new_heartbeat_client(&mut self, _: u64, member: &Member) -> Peer {
        Peer { transport: Arc::clone(&self.0), member: member.clone(), channel: Channel::Heartbeats }
    }

    async fn new_snapshot_client(&mut self, _: u64, member: &Member) -> Peer {
        Peer { transport: Arc::clone(&self.0), member: member.clone(), channel: Channel::Snapshots }
    }
}

/// One other member, for one purpose.
#[derive(Clone)]
pub(crate) struct Peer {
    transport: Arc<dyn Transport>,
    member: Member,
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
        request: &Request,
        limit: Duration,
    ) -> impl Future<Output = Result<R, Failure>> + Send + 'static + use<R> {
        let carried = self.transport.call(&self.member, channel, transport::encode(request), limit);
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
        tracing::info!(to = %self.member.name, upto = ?meta.last_log_id.map(|id| id.index), "sending a snapshot");
        let mut chunks = Chunks::new(view);
        let () = self.call(self.channel, &Request::SnapshotBegin, CHUNK_TIME_MAX).await?;
        let mut number = 0;
        while let Some(chunk) = chunks.next_chunk().map_err(unreachable)? {
            let request = Request::SnapshotChunk { number, chunk: Bytes::from(chunk) };
            let () = self.call(self.channel, &request, CHUNK_TIME_MAX).await?;
            number += 1;
        }
        let request = Request::SnapshotEnd { vote, meta, pairs: chunks.pairs() };
        self.call(self.channel, &request, INSTALL_TIME_MAX).await
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
        self.call(self.channel, &Request::Append(rpc), option.hard_ttl()).await
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
        let answers = input.map(move |request| {
            let prev = request.prev_log_id;
            let last = request.entries.last().map(|entry| entry.log_id).or(prev);
            let answer = peer.call(peer.channel, &Request::Append(request), ENTRIES_TIME_MAX);
            async move {
                let answer: AppendEntriesResponse<Types> = answer.await?;
                Ok(answer.into_stream_result(prev, last))
            }
        });
        // In order, and with several on their way.
        let answers: BoxStream<'s, _> = Box::pin(answers.buffered(IN_FLIGHT_MAX));
        Box::pin(async move { Ok(answers) })
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, Failure> {
        self.call(Channel::Heartbeats, &Request::Vote(rpc), option.hard_ttl()).await
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, Failure> {
        self.call(Channel::Heartbeats, &Request::PreVote(rpc), option.hard_ttl()).await
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
        self.call(Channel::Heartbeats, &Request::TransferLeader(req), option.hard_ttl()).await
    }
}
