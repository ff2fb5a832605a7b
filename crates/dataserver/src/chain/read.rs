//! Reads at any member that is in: they wait for changes under way of their range.

use std::ops::Range;
use std::sync::Arc;

use tokio::time::{Instant, timeout_at};
use wire::data::Status;

use super::locks::{Kind, RangeLock};
use super::objects::Ready;
use super::{CALL_TIME_MAX, Caller, Chains, Trouble};
use crate::found::Found;
use crate::objects::{ObjectError, Objects};

/// Attempts at a read whose blocks were mended: the disk may damage others meanwhile. More than blocks of the
/// largest read.
const READ_MENDS_MAX: u32 = 64;

impl Chains {
    /// Reads `range` by `at_once`, which does not block, or by `work`. A block that is damaged or unreadable is
    /// mended first, and the range is read again.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        found: &Found,
        range: Range<u64>,
        caller: Caller,
        at_once: impl Fn(&Objects) -> Option<T>,
        work: impl Fn(&Objects) -> Result<T, ObjectError> + Clone + Send + 'static,
    ) -> Result<T, Trouble> {
        if found.handle.chain_version != 0 {
            return self.read_by_member(found, range, work).await;
        }
        self.note_call();
        let objects = found.target.objects();
        let mut attempts = 0;
        let done = loop {
            let lock = self.lock_to_read(found, range.clone(), caller).await?;
            let done = found.target.run_unless(&at_once, work.clone()).await;
            // The head needs the lock to mend a block.
            drop(lock);
            attempts += 1;
            let may_be_damage = matches!(done, Err(ObjectError::Damaged | ObjectError::Io));
            if !may_be_damage || objects.check().is_err() || attempts > READ_MENDS_MAX {
                break done;
            }
            match self.mend_to_read(found, &range).await {
                Ok(0) if matches!(done, Err(ObjectError::Io)) => break done,
                // Not even its blocks can be looked at.
                Err(Trouble::Refused(Status::Io)) => break done,
                mended => {
                    mended?;
                }
            }
        };
        if done.is_err() && (objects.failed() || objects.lost()) {
            // The target is about to leave the chain, and the other members have the bytes.
            return Err(Status::ChainWaits.into());
        }
        // Removed here alone: before a restore of the metaservers.
        if let Err(error @ (ObjectError::Lost | ObjectError::Stale)) = done {
            return Err(match self.lost(found).await {
                Trouble::Refused(Status::ObjectLost) => error.into(),
                other => other,
            });
        }
        let done = done.map_err(|error| self.read_failure(found, error))?;
        // The lease may have ended while the disk was slow, and others may have written since.
        self.table.serving(found.handle.chain, found.handle.target)?;
        Ok(done)
    }

    /// Reads for another member: for the head, which compares a member that is being refilled, or for a member
    /// that takes back what this one refused. The caller holds the lock of the chain. The lock here is for a
    /// change of an earlier version that is still being written: the member may have hung in the midst of it.
    async fn read_by_member<T: Send + 'static>(
        &self,
        found: &Found,
        range: Range<u64>,
        work: impl FnOnce(&Objects) -> Result<T, ObjectError> + Send + 'static,
    ) -> Result<T, Trouble> {
        let chain = self.of_version(&found.handle, 0).await?;
        let is_refilling = chain.member(found.handle.target).ok_or(Status::StaleChain)?.is_refilling;
        let object = found.object;
        // An object on another chain is not the head's, and must not become it.
        let is_elsewhere = move |o: &Objects| {
            let mark = o.mark_of(object.name)?;
            Ok::<_, ObjectError>(is_refilling && mark.is_some_and(|mark| mark.chain != object.epoch.chain))
        };
        let work = move |o: &Objects| if is_elsewhere(o)? { Err(ObjectError::Lost) } else { work(o) };
        let deadline = Instant::now() + CALL_TIME_MAX;
        let asked = self.locks.ask((found.handle.target, found.object.name), range, Kind::Shared);
        let _lock = timeout_at(deadline, asked.held()).await.map_err(|_| Status::ChainWaits)?;
        Ok(found.target.run(work).await?)
    }

    /// Waits until no change of `range` is under way; others wait for this lock then. The object has the
    /// epoch of the call afterwards, at all members.
    pub(super) async fn lock_to_read(
        self: &Arc<Self>,
        found: &Found,
        range: Range<u64>,
        caller: Caller,
    ) -> Result<RangeLock, Trouble> {
        let deadline = Instant::now() + CALL_TIME_MAX;
        self.serving(&found.handle, caller).await?;
        self.same_epoch(found, caller).await?;
        let asked = self.locks.ask((found.handle.target, found.object.name), range, Kind::Shared);
        let waiting = asked.waits().then(|| self.metrics.waits());
        let lock = timeout_at(deadline, asked.held()).await.map_err(|_| Status::ChainWaits)?;
        drop(waiting);
        // It may have waited for long.
        self.serving(&found.handle, caller).await?;
        Ok(lock)
    }

    /// Raises the object's epoch at all members, if the call's is later. An object that is not there is not
    /// found by the read either.
    pub(super) async fn same_epoch(self: &Arc<Self>, found: &Found, caller: Caller) -> Result<(), Trouble> {
        let object = found.object;
        if found.target.objects().is_ready(object, &(0..0), 0) {
            return Ok(());
        }
        match found.target.run(move |o| o.prepare(object, 0..0, 0)).await {
            Ok(Ready::LaterEpoch) => self.raise(found, caller).await,
            Ok(Ready::Now) | Err(ObjectError::Lost | ObjectError::Stale) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
