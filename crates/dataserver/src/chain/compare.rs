//! Refilling one object: what differs between the head's and the member's is sent.

use std::ops::Range;
use std::sync::atomic::Ordering;

use bytes::{Bytes, BytesMut};
use wire::data::{Procedure, Run, Status, member, read, read_plus};
use wire::handle::{FileHandle, ObjectHandle};

use super::locks::{Kind as LockKind, RangeLock, WHOLE};
use super::member::fill;
use super::mend::NotMended;
use super::pace::{Kind, Turn};
use super::refill::{Refill, Stopped};
use super::regions::{DirtyRegions, REGION_BYTES};
use crate::checksums::BLOCK;
use crate::epoch::{CallEpoch, Epoch, Mark, ObjectRef};
use crate::object::ObjectName;
use crate::objects::ObjectError;
use crate::peers::Use;
use crate::ranges;

/// Time limit of the member's answer. Its lock may be held by changes that wait for the member after it.
const CALL_TIME_MAX: std::time::Duration = std::time::Duration::from_secs(10);

/// Time that a turn is kept for the sake of one range.
const LOCK_TIME_MAX: std::time::Duration = std::time::Duration::from_secs(1);

/// Outcome of the comparison of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compared {
    /// The member's region is that of the head now.
    Equal,
    /// The object was removed meanwhile.
    Removed,
    /// A block of the head's is damaged.
    Damaged,
    /// The head's own disk failed; a block may be unreadable.
    Unreadable,
}

/// Outcome of the mending of the head's own blocks.
enum Mended {
    /// No block was damaged.
    Nothing,
    /// All that were.
    All,
    /// This one is damaged at all members.
    Not(Range<u64>),
}

/// State of an object at the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Was {
    /// The member's object is that of the head now.
    There,
    /// The same; the member did not have it before.
    New,
    /// The head does not have it.
    Missing,
    /// The head, or the member, has an object of this name in another chain.
    Elsewhere,
}

/// An object with its epochs at the head, which stay as long as a lock of it is held.
#[derive(Clone, Copy)]
struct Marked {
    name: ObjectName,
    mark: Mark,
}

impl Refill {
    /// Makes the member's object equal to the head's. `only`: regions that are compared if the member has the object;
    /// none, or if it does not: all.
    pub(super) async fn object(&self, name: ObjectName, only: Option<&DirtyRegions>) -> Result<Was, Stopped> {
        let (len, was_there) = match self.begin(name, only.is_some()).await? {
            Ok(begun) => begun,
            Err(why) => return Ok(why),
        };
        let all = DirtyRegions::all();
        // Of an object that the member did not have nothing is equal.
        for range in only.filter(|_| was_there).unwrap_or(&all).ranges() {
            let (mut at, mut before_lost) = (range.start, u64::MAX);
            while at < len.min(range.end) {
                let end = len.min(range.end).min(at + REGION_BYTES);
                let end = if before_lost > at { end.min(before_lost) } else { end };
                match self.region(name, at, end).await? {
                    Compared::Equal => at = end,
                    Compared::Removed => return Ok(Was::Missing),
                    found @ (Compared::Damaged | Compared::Unreadable) => {
                        match self.mend(name, at..end).await? {
                            // Not the fault of a block, nor of another region's blocks.
                            Mended::Nothing if found == Compared::Unreadable => {
                                return Err(Stopped::Failed(Some(Status::Io)));
                            }
                            Mended::Nothing | Mended::All => {}
                            Mended::Not(lost) if lost.start > at => before_lost = lost.start,
                            Mended::Not(lost) if self.keep_damaged(name, lost.start / BLOCK).await? => {
                                at = lost.end
                            }
                            Mended::Not(_) => {}
                        }
                    }
                }
            }
        }
        let _turn_and_lock = self.turn(name, WHOLE, 0).await?;
        let Some(object) = self.marked(name).await? else { return Ok(Was::Missing) };
        let own = object.own();
        let stat = self.target.run(move |o| o.stat(own, false)).await?;
        self.call(object, member::Change::Modified(stat.modified_ns)).await?;
        self.call(object, member::Change::Sync).await?;
        Ok(if was_there { Was::There } else { Was::New })
    }

    /// Makes the object at the member, with the head's epochs and length, so that it has nothing that the
    /// head does not have beyond its end. Returns the length, and, if `asks`, whether the member had it.
    async fn begin(&self, name: ObjectName, asks: bool) -> Result<Result<(u64, bool), Was>, Stopped> {
        let _turn_and_lock = self.turn(name, WHOLE, 0).await?;
        let Some(object) = self.marked(name).await? else { return Ok(Err(Was::Missing)) };
        if object.mark.chain != self.chain.id {
            return Ok(Err(Was::Elsewhere));
        }
        let own = object.own();
        let len = self.target.run(move |o| o.length(own)).await?;
        let was_there = match asks {
            true => match self.read(object, 0, 0).await {
                Ok(_) => true,
                // It does not have the object, or one of another epoch.
                Err(Stopped::Failed(Some(Status::ObjectLost | Status::Stale | Status::StaleEpoch))) => false,
                Err(why) => return Err(why),
            },
            false => false,
        };
        let ObjectHandle { epoch, layout_epoch, .. } = self.handle(object);
        let truncated = if epoch == 0 { 0 } else { object.mark.truncated };
        let epochs = member::Epochs { epoch, layout_epoch, truncated };
        match self.call(object, member::Change::Make(epochs)).await {
            // The member has the object on another chain, which the column has moved to.
            Err(Stopped::Failed(Some(Status::StaleEpoch))) => return Ok(Err(Was::Elsewhere)),
            made => made?,
        }
        self.call(object, member::Change::Length(len)).await?;
        Ok(Ok((len, was_there)))
    }

    /// Compares a region, and sends it if it differs.
    async fn region(&self, name: ObjectName, at: u64, end: u64) -> Result<Compared, Stopped> {
        let len = end - at;
        let _turn_and_lock = self.turn(name, at..end, len).await?;
        let Some(object) = self.marked(name).await? else { return Ok(Compared::Removed) };
        let own = object.own();
        let (own, theirs) = tokio::join!(
            self.target.run(move |o| o.read_runs(own, at, len as usize)),
            self.read(object, at, len)
        );
        self.chains.metrics.refill_compared.inc_by(len);
        self.chains.progress.compared(self.chain.id, len);
        let own = match own {
            Err(ObjectError::Damaged) => return Ok(Compared::Damaged),
            Err(ObjectError::Io) => return Ok(Compared::Unreadable),
            own => own?,
        };
        let own_bytes = flat(own.iter(), len);
        let theirs = match theirs {
            // The blocks are rewritten whole: a part of a damaged one is not written.
            Err(Stopped::Failed(Some(Status::Damaged | Status::Io))) => {
                let fill = fill(at, own_bytes.freeze().into());
                self.call(object, member::Change::Fill(fill)).await?;
                self.chains.metrics.refilled.inc_by(len);
                return Ok(Compared::Equal);
            }
            theirs => theirs?.into_iter().map(|run| match run {
                Run::Data(data) => ranges::Run::Data(data.to_bytes()),
                Run::Hole(len) => ranges::Run::Hole(len),
            }),
        };
        if own_bytes == flat(theirs.collect::<Vec<_>>().iter(), len) {
            return Ok(Compared::Equal);
        }
        let mut offset = at;
        for run in own {
            let (len, change) = match run {
                ranges::Run::Data(data) => {
                    (data.len() as u64, member::Change::Fill(fill(offset, data.into())))
                }
                ranges::Run::Hole(len) => (len, member::Change::Clear(member::Clear { offset, len })),
            };
            self.call(object, change).await?;
            offset += len;
        }
        self.chains.metrics.refilled.inc_by(len);
        Ok(Compared::Equal)
    }

    /// Mends the head's own blocks, which must not be spread.
    async fn mend(&self, name: ObjectName, range: Range<u64>) -> Result<Mended, Stopped> {
        let blocks = range.start / BLOCK..range.end.div_ceil(BLOCK);
        let damaged = self.target.run(move |o| o.damaged_blocks(name, blocks)).await?;
        let mended = if damaged.is_empty() { Mended::Nothing } else { Mended::All };
        for block in damaged {
            match self.chains.mend_found(&self.target, name, block).await {
                Ok(()) => {}
                Err(NotMended::AllDamaged) => return Ok(Mended::Not(block * BLOCK..block * BLOCK + BLOCK)),
                Err(NotMended::NotYet) => return Err(Stopped::Failed(Some(Status::Damaged))),
            }
        }
        self.still_leads().map(|()| mended)
    }

    /// Sends a block that no member has as it is, to be damaged at the member, too: all else gets its copies. False: it
    /// was written meanwhile.
    async fn keep_damaged(&self, name: ObjectName, block: u64) -> Result<bool, Stopped> {
        let at = block * BLOCK;
        let _lock = self.lock(name, at..at + BLOCK).await;
        self.still_leads()?;
        let Some(object) = self.marked(name).await? else { return Ok(false) };
        let damaged = self.target.run(move |o| o.damaged_blocks(name, std::iter::once(block))).await?;
        if damaged.is_empty() {
            return Ok(false);
        }
        let bytes = self.target.run(move |o| o.raw_block(name, block)).await?;
        self.call(object, member::Change::Damaged(fill(at, bytes.into()))).await?;
        Ok(true)
    }

    /// Removes an object at the member that the head does not have.
    pub(super) async fn remove_if_missing(&self, name: ObjectName) -> Result<(), Stopped> {
        let _lock = self.lock(name, WHOLE).await;
        match self.marked(name).await? {
            Some(_) => Ok(()),
            None => self.call(Marked { name, mark: Mark::default() }, member::Change::Remove).await,
        }
    }

    /// Waits for the next turn, and for the lock of a range, under which this server leads the chain in the same version.
    async fn turn(
        &self,
        name: ObjectName,
        range: Range<u64>,
        bytes: u64,
    ) -> Result<(Turn<'_>, RangeLock), Stopped> {
        loop {
            self.still_leads()?;
            let kind = match self.chains.progress.is_whole(self.chain.id) {
                true => Kind::Whole { heads: self.heads.load(Ordering::Relaxed) },
                false => Kind::ByLogs,
            };
            let calls = self.chains.calls.load(Ordering::Relaxed);
            let turn = self.chains.pace.turn(bytes, calls, kind).await;
            // A change that waits, for room perhaps, holds up no other chain.
            if let Ok(lock) = tokio::time::timeout(LOCK_TIME_MAX, self.lock(name, range.clone())).await {
                self.still_leads()?;
                return Ok((turn, lock));
            }
        }
    }

    /// A lock under which no change is under way, and reads go on.
    async fn lock(&self, name: ObjectName, range: Range<u64>) -> RangeLock {
        self.chains.locks.ask((self.target.id(), name), range, LockKind::Shared).held().await
    }

    async fn marked(&self, name: ObjectName) -> Result<Option<Marked>, Stopped> {
        let mark = self.target.run(move |o| o.mark_of(name)).await?;
        Ok(mark.map(|mark| Marked { name, mark }))
    }

    fn handle(&self, object: Marked) -> ObjectHandle {
        let Marked { name, mark } = object;
        let incarnation = self.target.incarnation().unwrap_or(0);
        // Epochs of another incarnation are as good as none.
        let (epoch, layout_epoch) = match mark.incarnation == incarnation {
            true => (mark.epoch, mark.layout_epoch),
            false => (0, 0),
        };
        ObjectHandle {
            file: FileHandle { volume: name.volume, inode: name.inode, generation: name.generation },
            column: name.column,
            target: self.member.target,
            unit: 0,
            columns: 1,
            incarnation,
            epoch,
            layout_epoch,
            chain: self.chain.id,
            chain_version: self.chain.version,
        }
    }

    fn sealed(&self, object: Marked) -> Bytes {
        self.handle(object).seal(&self.chains.key)
    }

    async fn call(&self, object: Marked, change: member::Change) -> Result<(), Stopped> {
        self.still_leads()?;
        let args = member::Args { handle: self.sealed(object), change };
        let peer = self.chains.peers.get(self.member.address, Use::Fetch);
        let answer: Result<member::Res, _> = peer.call(Procedure::Member as u32, &args, CALL_TIME_MAX).await;
        answer.map_err(|_| Stopped::Failed(None))?.map_err(|status| Stopped::Failed(Some(status)))
    }

    async fn read(&self, object: Marked, offset: u64, count: u64) -> Result<Vec<Run>, Stopped> {
        let args = read::Args { handle: self.sealed(object), offset, count: count as u32 };
        let peer = self.chains.peers.get(self.member.address, Use::Fetch);
        let answer: Result<read_plus::Res, _> =
            peer.call(Procedure::ReadPlus as u32, &args, CALL_TIME_MAX).await;
        let read = answer.map_err(|_| Stopped::Failed(None))?;
        read.map(|ok| ok.runs).map_err(|status| Stopped::Failed(Some(status)))
    }
}

impl Marked {
    /// The object for own work: with the epochs that it has.
    fn own(&self) -> ObjectRef {
        let Mark { incarnation, epoch, layout_epoch, chain, .. } = self.mark;
        let call = CallEpoch::Server(epoch, layout_epoch);
        ObjectRef { name: self.name, epoch: Epoch { incarnation, chain, call } }
    }
}

/// The bytes of a region: holes, and what is beyond the end, are zeros.
fn flat<'a>(runs: impl Iterator<Item = &'a ranges::Run>, len: u64) -> BytesMut {
    let mut bytes = BytesMut::with_capacity(len as usize);
    for run in runs {
        match run {
            ranges::Run::Data(data) => bytes.extend_from_slice(data),
            ranges::Run::Hole(hole) => bytes.resize(bytes.len() + (*hole).min(len) as usize, 0),
        }
    }
    bytes.resize(len as usize, 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_and_zeros_are_the_same() {
        let runs = [ranges::Run::Data(Bytes::from_static(b"ab")), ranges::Run::Hole(2)];
        let zeros = [ranges::Run::Data(Bytes::from_static(b"ab\0\0\0"))];
        assert_eq!(flat(runs.iter(), 6), flat(zeros.iter(), 6));
        assert_eq!(flat([ranges::Run::Hole(u64::MAX)].iter(), 3), &b"\0\0\0"[..]);
    }
}
