//! Calls of clients that go from another member to the head: changes, and reads at a member that is being refilled.
//! So a client keeps its layout while a data server that was away for a moment gets what it lacks.

use std::sync::Arc;

use nfs::CallFailure;
use tokio::time::{Instant, timeout_at};
use wire::data::{Procedure, Status, allocate, commit, read, write};
use wire::handle::ObjectHandle;
use wire::xdr::{Decode, Payload};

use super::forward::Outcome;
use super::table::Chain;
use super::{CALL_TIME_MAX, Caller, Chains, Change, Done, Trouble};
use crate::found::Found;
use crate::objects::Objects;
use crate::peers::Use;
use crate::ranges::Reserve;

/// Outcome of a call to the head.
enum Relayed {
    Done(Done),
    Refused(Status),
    /// Nothing was done: the head has no lease, is none any more, or cannot be reached.
    NotYet,
    /// The head gave no answer.
    NoAnswer,
}

impl Chains {
    /// Sends a change to the head. None: nothing was done, and the chain may be another one now.
    pub(super) async fn relay(
        &self,
        found: &Found,
        change: &Change,
        chain: &Arc<Chain>,
        deadline: Instant,
    ) -> Result<Option<Done>, Trouble> {
        let Some(head) = chain.head() else { return Ok(None) };
        self.metrics.relays.inc();
        let handle = ObjectHandle { target: head.target, chain_version: 0, ..found.handle };
        let call = change.call(handle.seal_for(found.holder, &self.key));
        let peer = self.peers.get(head.address, Use::Relay);
        let left = deadline.saturating_duration_since(Instant::now());
        let sent = async {
            match change {
                Change::Write { .. } => {
                    relayed(peer.call(call.procedure() as u32, &call, left).await, |ok: write::ResOk| Done {
                        verifier: ok.verifier,
                        reserve: None,
                    })
                }
                Change::Commit => {
                    relayed(peer.call(call.procedure() as u32, &call, left).await, |ok: commit::ResOk| Done {
                        verifier: ok.verifier,
                        reserve: None,
                    })
                }
                Change::Allocate { .. } => {
                    relayed(peer.call(call.procedure() as u32, &call, left).await, |ok: allocate::ResOk| {
                        let reserve = Reserve { needed: ok.needed, free: ok.free };
                        Done { verifier: ok.verifier, reserve: Some((reserve, ok.file_system)) }
                    })
                }
                _ => {
                    let answer: Result<Outcome, _> = peer.call(call.procedure() as u32, &call, left).await;
                    let done = Done { verifier: chain.verifier, reserve: None };
                    relayed(answer.map(|outcome| outcome.0), |()| done)
                }
            }
        };
        let has_other_head = self.table.other_head_than(chain.id, head.target);
        tokio::pin!(has_other_head);
        let outcome = tokio::select! {
            biased;
            outcome = sent => outcome,
            // The former head acknowledges nothing any more. What it has sent to other members is ahead of
            // the call that is sent now.
            () = &mut has_other_head => return Ok(None),
        };
        match outcome {
            Relayed::Done(done) => Ok(Some(done)),
            Relayed::Refused(status) => Err(status.into()),
            Relayed::NotYet => {
                let _waiting = self.metrics.waits();
                self.table.later_or_pause(chain.id, chain.version).await;
                Ok(None)
            }
            // A copy of the call may be on its way to a head that lives.
            Relayed::NoAnswer => match timeout_at(deadline, has_other_head).await {
                Ok(()) => Ok(None),
                Err(_) => Err(Trouble::Unknown),
            },
        }
    }

    /// Reads bytes for a client: here, or at the head if this member is being refilled. Fewer than `count` are there
    /// only at the end of the object.
    pub(crate) async fn read_for_client(
        self: &Arc<Self>,
        found: &Found,
        offset: u64,
        count: usize,
    ) -> Result<Payload, Trouble> {
        let object = found.object;
        let deadline = Instant::now() + CALL_TIME_MAX;
        loop {
            let chain = self.reached(&found.handle, Caller::Client).await?;
            let is_refilling = chain.member(found.handle.target).is_some_and(|member| member.is_refilling);
            if !is_refilling {
                let range = offset..offset.saturating_add(count as u64);
                let cached = move |o: &Objects| o.read_cached(object, offset, count);
                let work = move |o: &Objects| o.read(object, offset, count);
                return Ok(self.read(found, range, Caller::Client, cached, work).await?.data.into());
            }
            if Instant::now() >= deadline {
                return Err(Status::ChainWaits.into());
            }
            if let Some(payload) = self.relay_read(found, offset, count, &chain, deadline).await? {
                return Ok(payload);
            }
        }
    }

    /// Reads at the head. None: it gave no bytes, and the chain may be another one now.
    async fn relay_read(
        &self,
        found: &Found,
        offset: u64,
        count: usize,
        chain: &Arc<Chain>,
        deadline: Instant,
    ) -> Result<Option<Payload>, Trouble> {
        let Some(head) = chain.head() else { return Ok(None) };
        self.metrics.relays.inc();
        let handle = ObjectHandle { target: head.target, chain_version: 0, ..found.handle };
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let args = read::Args { handle: handle.seal_for(found.holder, &self.key), offset, count };
        let peer = self.peers.get(head.address, Use::Relay);
        let left = deadline.saturating_duration_since(Instant::now());
        let answer: Result<read::Res, _> = tokio::select! {
            biased;
            answer = peer.call(Procedure::Read as u32, &args, left) => answer,
            () = self.table.other_head_than(chain.id, head.target) => return Ok(None),
        };
        match answer {
            Ok(Ok(read)) => Ok(Some(read.payload)),
            Ok(Err(status)) if !matches!(status, Status::StaleChain | Status::ChainWaits) => {
                Err(status.into())
            }
            // Nothing was changed: the read is sent again.
            _ => {
                let _waiting = self.metrics.waits();
                self.table.later_or_pause(chain.id, chain.version).await;
                Ok(None)
            }
        }
    }
}

fn relayed<T>(answer: Result<Result<T, Status>, CallFailure>, done: impl FnOnce(T) -> Done) -> Relayed
where
    Result<T, Status>: Decode,
{
    match answer {
        Ok(Ok(ok)) => Relayed::Done(done(ok)),
        Ok(Err(Status::StaleChain | Status::ChainWaits | Status::WrongSum)) => Relayed::NotYet,
        Ok(Err(status)) => Relayed::Refused(status),
        Err(CallFailure::Connect(_)) => Relayed::NotYet,
        Err(_) => Relayed::NoAnswer,
    }
}
