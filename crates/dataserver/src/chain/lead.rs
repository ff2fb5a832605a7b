//! Changes of clients and metaservers: the head makes them, any other member relays them to the head.

use std::pin::Pin;
use std::sync::Arc;

use nfs::CallFailure;
use tokio::time::{Instant, timeout_at};
use wire::data::{Status, allocate, commit, write};
use wire::handle::ObjectHandle;
use wire::xdr::Decode;

use super::forward::Outcome;
use super::locks::Kind;
use super::objects::Ready;
use super::table::Chain;
use super::{CALL_TIME_MAX, Caller, Chains, Change, Done, Trouble};
use crate::peers::Use;
use crate::ranges::Reserve;
use crate::server::Found;

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
    /// Makes a change in the chain's order.
    pub(super) async fn lead(
        self: &Arc<Self>,
        found: Found,
        change: Change,
        caller: Caller,
    ) -> Result<Done, Trouble> {
        let deadline = Instant::now() + CALL_TIME_MAX;
        let _place = match caller {
            Caller::Client => None,
            Caller::Server(_) => Some(self.place(&self.led, change.payload_bytes())?),
        };
        loop {
            let chain = self.serving(&found.handle, caller).await?;
            // A process that hung must not carry out now what its caller has long done elsewhere.
            if Instant::now() >= deadline {
                return Err(Status::ChainWaits.into());
            }
            let head = chain.is_head(found.handle.target);
            let done = match head {
                true => self.lead_once(&found, &change, caller, deadline).await?,
                false => self.relay(&found, &change, &chain, deadline).await?,
            };
            if let Some(done) = done {
                return Ok(done);
            }
        }
    }

    /// The chain, if this target serves it now or soon.
    pub(super) async fn serving(&self, handle: &ObjectHandle, caller: Caller) -> Result<Arc<Chain>, Trouble> {
        if let Ok(chain) = self.table.serving(handle.chain, handle.target) {
            return Ok(chain);
        }
        let _waiting = self.metrics.waits();
        Ok(self.table.serving_soon(handle.chain, handle.target, caller.hold()).await?)
    }

    /// Makes a change as the head. None: it is not the head any more, or the object's epoch was raised first.
    async fn lead_once(
        self: &Arc<Self>,
        found: &Found,
        change: &Change,
        caller: Caller,
        deadline: Instant,
    ) -> Result<Option<Done>, Trouble> {
        let asked = self.locks.ask((found.handle.target, found.object.name), change.range(), Kind::Alone);
        let waiting = asked.waits().then(|| self.metrics.waits());
        let lock = timeout_at(deadline, asked.held()).await.map_err(|_| Status::ChainWaits)?;
        drop(waiting);
        let chain = self.serving(&found.handle, caller).await?;
        if !chain.is_head(found.handle.target) {
            return Ok(None);
        }
        let is_raise = matches!(change, Change::Raise);
        match change.prepare(found, false).await {
            Ok(Ready::LaterEpoch) if !is_raise => {
                drop(lock);
                // All members must know the epoch before anything is done with it: an earlier call that is
                // still on its way along the chain must find the same epoch everywhere.
                self.raise(found, caller).await?;
                return Ok(None);
            }
            Ok(_) => {}
            Err(error) => return Err(self.not_prepared(found, error).await),
        }
        let (chains, found, change) = (Arc::clone(self), found.clone(), change.clone());
        let done = self
            .finish(deadline, async move {
                let handle = found.handle;
                let done = chains.carry_out(found, change, lock).await?;
                // A head that was taken out meanwhile may be the only one to have it.
                let chain = chains.table.serving(handle.chain, handle.target)?;
                chain.is_head(handle.target).then_some(done).ok_or(Status::StaleChain.into())
            })
            .await?;
        Ok(Some(done))
    }

    /// Raises the object's epoch to that of the handle, at all members.
    pub(super) fn raise<'a>(
        self: &'a Arc<Self>,
        found: &'a Found,
        caller: Caller,
    ) -> Pin<Box<dyn Future<Output = Result<(), Trouble>> + Send + 'a>> {
        Box::pin(async move { self.lead(found.clone(), Change::Raise, caller).await.map(drop) })
    }

    /// Sends a change to the head. None: nothing was done, and the chain may be another one now.
    async fn relay(
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
}

fn relayed<T>(answer: Result<Result<T, Status>, CallFailure>, done: impl FnOnce(T) -> Done) -> Relayed
where
    Result<T, Status>: Decode,
{
    match answer {
        Ok(Ok(ok)) => Relayed::Done(done(ok)),
        Ok(Err(Status::StaleChain | Status::ChainWaits)) => Relayed::NotYet,
        Ok(Err(status)) => Relayed::Refused(status),
        Err(CallFailure::Connect(_)) => Relayed::NotYet,
        Err(_) => Relayed::NoAnswer,
    }
}
