//! Lengths and times of objects with copies. The head tells them.
//!
//! A length is told when no change is under way, so all members have it. Clocks of members differ, and each
//! member sets the time of a write by its own clock. So the head makes the time that it tells known to all
//! members before it tells the time: the times of their objects are then at least this, and each later write
//! gets a later time, also at another head. A time that was told never goes back, and no write goes
//! unnoticed. After a change of the head the time may be later although nothing was written.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use wire::data::{Procedure, Status, member, stat};
use wire::handle::ObjectHandle;

use super::locks::WHOLE;
use super::{CALL_TIME_MAX, Caller, Chains, Change, Trouble};
use crate::found::Found;
use crate::object::ObjectStat;
use crate::objects::ObjectError;
use crate::peers::Use;

/// Time limit of a member's answer.
const TELL_TIME_MAX: Duration = Duration::from_secs(5);

impl Chains {
    /// Notes that a time of the object is about to be known, which members that are away must know, too.
    pub(super) async fn note_time(&self, found: &Found) -> Result<(), Trouble> {
        let (chain, name) = (found.handle.chain, found.object.name);
        self.dirty.note(chain, name, 0..0);
        if !self.dirty.is_degraded(chain) {
            return Ok(());
        }
        // No byte changes, so nothing else has it in the change log.
        match found.target.run(move |o| o.note_object(&name, &*o.find(name)?)).await {
            Ok(()) | Err(ObjectError::Stale | ObjectError::Lost) => Ok(()),
            // Only a time is at stake, which the log in memory has. This may be the last member with the data.
            Err(ObjectError::ReadOnly | ObjectError::NoSpace) => Ok(()),
            Err(ObjectError::Busy) => Err(Status::ChainWaits.into()),
            Err(error) => Err(self.own_failure(found, error)),
        }
    }

    /// Length and time of an object, durable first if `sync`. None: all members have lost it.
    pub(crate) async fn stat(
        self: &Arc<Self>,
        found: &Found,
        sync: bool,
        caller: Caller,
    ) -> Result<Option<ObjectStat>, Trouble> {
        if let (true, Caller::Server(connection)) = (found.handle.chain_version != 0, caller) {
            self.forwarded(found.clone(), Change::Raise, connection).await?;
            return Ok(Some(ObjectStat::default()));
        }
        let deadline = Instant::now() + CALL_TIME_MAX;
        loop {
            let chain = self.serving(&found.handle, caller).await?;
            let Some(head) = chain.head() else { return Err(Status::ChainWaits.into()) };
            if head.target == found.handle.target {
                return self.stat_as_head(found, sync, caller, deadline).await;
            }
            let handle = ObjectHandle { target: head.target, ..found.handle };
            let args = stat::Args { handles: vec![handle.seal_for(found.holder, &self.key)], sync };
            let peer = self.peers.get(head.address, Use::Relay);
            let left = deadline.saturating_duration_since(Instant::now());
            let answer: Result<stat::Res, _> = peer.call(Procedure::Stat as u32, &args, left).await;
            match answer {
                Ok(Ok(found)) => {
                    let one = found.objects.first().copied().flatten();
                    return Ok(one.map(ObjectStat::from));
                }
                Ok(Err(status)) if !matches!(status, Status::StaleChain | Status::ChainWaits) => {
                    return Err(status.into());
                }
                _ if Instant::now() >= deadline => return Err(Status::ChainWaits.into()),
                // STAT may be sent again: it changes nothing but the epoch.
                _ => self.table.later_or_pause(chain.id, chain.version).await,
            }
        }
    }

    async fn stat_as_head(
        self: &Arc<Self>,
        found: &Found,
        sync: bool,
        caller: Caller,
        deadline: Instant,
    ) -> Result<Option<ObjectStat>, Trouble> {
        if sync {
            self.lead(found.clone(), Change::Commit, caller).await?;
        }
        let lock = self.lock_to_read(found, WHOLE, caller).await?;
        let object = found.object;
        let (told, is_known) = match found.target.run(move |o| o.stat_at_head(object)).await {
            Err(ObjectError::Lost) => match self.lost(found).await {
                Trouble::Refused(Status::ObjectLost) => (None, true),
                trouble => return Err(trouble),
            },
            stat => stat.map_err(|error| self.read_failure(found, error))?,
        };
        if let (Some(told), false) = (told, is_known) {
            // Members that are away must know it, too, when they come back.
            self.note_time(found).await?;
            let all = self.tell_time(found, told.modified_ns);
            timeout_at(deadline, all).await.map_err(|_| Status::ChainWaits)??;
            // A member may have gone meanwhile.
            self.note_time(found).await?;
            let objects = found.target.run(move |o| {
                o.time_is_known(object.name, told.modified_ns);
                Ok(())
            });
            objects.await?;
        }
        drop(lock);
        let chain = self.table.serving(found.handle.chain, found.handle.target)?;
        // Otherwise the new head may know a later one.
        chain.is_head(found.handle.target).then_some(told).ok_or(Status::StaleChain.into())
    }

    /// Makes a time known to all members of the latest known version.
    async fn tell_time(&self, found: &Found, modified_ns: u64) -> Result<(), Status> {
        let id = found.handle.chain;
        loop {
            let chain = self.table.get(id).ok_or(Status::ChainWaits)?;
            if !chain.is_head(found.handle.target) {
                return Err(Status::StaleChain);
            }
            let mut done = true;
            for other in chain.others(found.handle.target) {
                let handle =
                    ObjectHandle { target: other.target, chain_version: chain.version, ..found.handle };
                let change = member::Change::Modified(modified_ns);
                let args = member::Args { handle: handle.seal_for(found.holder, &self.key), change };
                let peer = self.peers.get(other.address, Use::Fetch);
                let answer: Result<member::Res, _> = tokio::select! {
                    biased;
                    answer = peer.call(Procedure::Member as u32, &args, TELL_TIME_MAX) => answer,
                    () = self.table.later_than(id, chain.version) => { done = false; break }
                };
                done &= matches!(answer, Ok(Ok(())));
            }
            if done && self.table.get(id).is_some_and(|now| now.version == chain.version) {
                return Ok(());
            }
            self.table.later_or_pause(id, chain.version).await;
        }
    }
}
