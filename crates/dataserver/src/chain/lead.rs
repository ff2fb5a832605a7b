//! Changes of clients and metaservers: the head makes them, any other member relays them to the head
//! (`chain::relay`).

use std::pin::Pin;
use std::sync::Arc;

use tokio::time::{Instant, timeout_at};
use wire::data::Status;
use wire::handle::ObjectHandle;

use super::locks::Kind;
use super::objects::Ready;
use super::table::{Chain, NotServing};
use super::{CALL_TIME_MAX, Caller, Chains, Change, Done, Trouble};
use crate::found::Found;

impl Chains {
    /// Makes a change in the chain's order.
    pub(super) async fn lead(
        self: &Arc<Self>,
        found: Found,
        mut change: Change,
        caller: Caller,
    ) -> Result<Done, Trouble> {
        let deadline = Instant::now() + CALL_TIME_MAX;
        change.check_sums().inspect_err(|_| self.wrong_sum(&found))?;
        let _place = match caller {
            Caller::Client => None,
            Caller::Server(_) => Some(self.place(&self.led, change.payload_bytes())?),
        };
        loop {
            let chain = self.reached(&found.handle, caller).await?;
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
        self.soon(caller, || self.table.serving(handle.chain, handle.target)).await
    }

    /// The same for calls that can be relayed: those of clients reach the head also by way of a member that is being
    /// refilled. Servers know which members are in.
    pub(super) async fn reached(&self, handle: &ObjectHandle, caller: Caller) -> Result<Arc<Chain>, Trouble> {
        match caller {
            Caller::Client => self.soon(caller, || self.table.reached(handle.chain, handle.target)).await,
            Caller::Server(_) => self.serving(handle, caller).await,
        }
    }

    async fn soon(
        &self,
        caller: Caller,
        find: impl Fn() -> Result<Arc<Chain>, NotServing>,
    ) -> Result<Arc<Chain>, Trouble> {
        if let Ok(chain) = find() {
            return Ok(chain);
        }
        let _waiting = self.metrics.waits();
        Ok(self.table.soon(caller.hold(), find).await?)
    }

    /// Makes a change as the head. None: it is not the head any more, or the object's epoch was raised first.
    async fn lead_once(
        self: &Arc<Self>,
        found: &Found,
        change: &Change,
        caller: Caller,
        deadline: Instant,
    ) -> Result<Option<Done>, Trouble> {
        let asked = self.locks.ask(
            (found.handle.target, found.object.name),
            change.range(),
            Kind::Alone(found.handle.chain),
        );
        let waiting = asked.waits().then(|| self.metrics.waits());
        let lock = timeout_at(deadline, asked.held()).await.map_err(|_| Status::ChainWaits)?;
        drop(waiting);
        let chain = self.serving(&found.handle, caller).await?;
        if !chain.is_head(found.handle.target) {
            return Ok(None);
        }
        let is_raise = matches!(change, Change::Raise);
        match change.prepare(found, false, &self.dirty).await {
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
            .await;
        match done {
            // The caller comes again: the other change is done then, or has given way.
            Err(Trouble::Refused(Status::OtherChain)) => Err(Status::ChainWaits.into()),
            done => done.map(Some),
        }
    }

    /// Raises the object's epoch to that of the handle, at all members.
    pub(super) fn raise<'a>(
        self: &'a Arc<Self>,
        found: &'a Found,
        caller: Caller,
    ) -> Pin<Box<dyn Future<Output = Result<(), Trouble>> + Send + 'a>> {
        Box::pin(async move { self.lead(found.clone(), Change::Raise, caller).await.map(drop) })
    }
}
