//! Mending: a damaged or unreadable block of one member gets the bytes of a sound member.
//!
//! ```text
//! member with the damage ── MEND ──▶ head: lock of the block, shared
//!                                      ├─ own block sound? ─ no ─▶ BLOCK from the next member that is in
//!                                      │    none sound? ─▶ from one that is refilled, if the bytes fit the head's own sum
//! member ◀── MEMBER: bytes ────────────┘
//! member ──▶ head: done ──▶ lock released      then the member repeats its read or its change
//! ```
//!
//! **No write is lost.** While the head has the lock of the block, all members have the same changes of it,
//! but for those that wait at the member until the block is mended: the head leaves out their ranges, and the
//! member writes these bytes afterwards, before it serves them. A copy of the MEMBER call that comes late
//! finds a sound block, and does nothing: a part of a damaged block is never written.
//!
//! **No deadlock.** A read gives up its lock before it has a block mended. A change keeps its lock, and says
//! so. The head waits for a lock for a short time only; then the member asks again, with all changes that
//! wait by then.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout_at};
use wire::data::{Procedure, Status, block, member, mend};
use wire::handle::{Holder, ObjectHandle};

use super::locks::Kind;
use super::member::fill;
use super::stuck::outside;
use super::table::{Chain, Member};
use super::{CALL_TIME_MAX, Chains, Change, Trouble};
use crate::checksums::{BLOCK, BLOCK_BYTES};
use crate::found::Found;
use crate::object::ObjectName;
use crate::objects::ObjectError;
use crate::peers::Use;
use crate::ranges::Reserve;
use crate::target::Target;

/// Blocks that are mended at a time: each holds 64 KiB here and at the head.
pub(super) const MENDS_AT_A_TIME: usize = 32;
/// Time that the head waits for the lock of a block: a change takes a few milliseconds, unless it waits itself.
const LOCK_TIME_MAX: Duration = Duration::from_millis(100);
/// Time limit of another member's answer with its block: after it, the next one is asked.
const BLOCK_TIME_MAX: Duration = Duration::from_secs(2);
/// Time limit of the member's answer when it has its block.
const REWRITE_TIME_MAX: Duration = Duration::from_secs(5);
/// Time limit of the head's answer: the lock, the blocks of two members, the rewriting.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// Changes that a head believes to wait for one block: more than a member has calls of clients under way.
const EXCEPT_MAX: usize = 4096;
/// Blocks of one read: the largest read, and the parts before and after it.
const BLOCKS_OF_READ_MAX: u64 = 18;

/// Reason why a block was not mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotMended {
    /// No member has the block undamaged.
    AllDamaged,
    /// A member did not answer, or a lock was not free, or the chain has changed.
    NotYet,
}

impl From<NotMended> for Status {
    fn from(why: NotMended) -> Self {
        match why {
            NotMended::AllDamaged => Status::Damaged,
            NotMended::NotYet => Status::ChainWaits,
        }
    }
}

impl Chains {
    /// Mends the blocks of a read that are damaged. Returns their number. The caller has no lock.
    pub(super) async fn mend_to_read(
        self: &Arc<Self>,
        found: &Found,
        range: &Range<u64>,
    ) -> Result<usize, Trouble> {
        let deadline = Instant::now() + CALL_TIME_MAX;
        let first = range.start / BLOCK;
        let last = range.end.div_ceil(BLOCK).min(first.saturating_add(BLOCKS_OF_READ_MAX));
        let name = found.object.name;
        let damaged = found.target.run(move |o| o.damaged_blocks(name, first..last)).await?;
        let _waiting = self.metrics.waits();
        let count = damaged.len();
        for block in damaged {
            self.mend(found, block, deadline).await.map_err(Status::from)?;
        }
        Ok(count)
    }

    /// Does the work of this member. If the change covers a part of a damaged block, the block is mended
    /// first. An error [`ObjectError::Damaged`] says that nothing was done: no member can mend the block.
    pub(super) async fn own_work(
        self: &Arc<Self>,
        found: &Found,
        change: &Change,
    ) -> Result<Option<Reserve>, ObjectError> {
        let mut of_disk = false;
        loop {
            let done = change.own_work(found).await;
            match (&done, change) {
                (Err(ObjectError::Damaged), Change::Write { .. } | Change::Punch { .. }) => {}
                // Of a block that could not be read; or of another cause, which stays.
                (Err(ObjectError::Io), Change::Write { .. }) if !of_disk => of_disk = true,
                _ => return done,
            }
            let (range, name) = (change.range(), found.object.name);
            let edges = BTreeSet::from([range.start / BLOCK, range.end.saturating_sub(1) / BLOCK]);
            let damaged = found.target.run(move |o| o.damaged_blocks(name, edges.into_iter())).await?;
            let _stuck = self.stuck.add((found.handle.target, name), range);
            for block in damaged {
                match self.mend(found, block, Instant::now() + CALL_TIME_MAX).await {
                    Ok(()) => {}
                    Err(NotMended::AllDamaged) => return Err(ObjectError::Damaged),
                    Err(NotMended::NotYet) => {
                        let chain = self.table.get(found.handle.chain);
                        if chain.is_none_or(|chain| chain.member(found.handle.target).is_none()) {
                            return Err(ObjectError::Damaged);
                        }
                    }
                }
            }
        }
    }

    /// Mends a block that was found damaged, of an object that may have copies. Tries once.
    pub(crate) async fn mend_found(
        self: &Arc<Self>,
        target: &Arc<Target>,
        name: ObjectName,
        block: u64,
    ) -> Result<(), NotMended> {
        let mark = target.run(move |o| o.mark_of(name)).await.ok().flatten().ok_or(NotMended::NotYet)?;
        let found = Found::own(target, name, mark).ok_or(NotMended::NotYet)?;
        self.mend(&found, block, Instant::now()).await
    }

    /// Mends a block of this member. Tries until the deadline, once at least.
    async fn mend(self: &Arc<Self>, found: &Found, block: u64, deadline: Instant) -> Result<(), NotMended> {
        loop {
            let chain = self.table.get(found.handle.chain).ok_or(NotMended::NotYet)?;
            let outcome = {
                let _place = self.mends.acquire().await.map_err(|_| NotMended::NotYet)?;
                self.mend_once(found, &chain, block).await
            };
            match outcome {
                // The disk does not take the bytes.
                Err(NotMended::NotYet)
                    if found.target.objects().check().is_err()
                        || self.table.has_left(chain.id, found.handle.target) =>
                {
                    return Err(NotMended::NotYet);
                }
                Err(NotMended::NotYet) if Instant::now() < deadline => {
                    self.table.later_or_pause(chain.id, chain.version).await;
                }
                Err(NotMended::AllDamaged) => {
                    let name = found.object.name;
                    let is_sum = found.target.run(move |o| o.replace_unreadable_sum(name, block)).await;
                    return if is_sum == Ok(true) { Ok(()) } else { Err(NotMended::AllDamaged) };
                }
                outcome => return outcome,
            }
        }
    }

    async fn mend_once(&self, found: &Found, chain: &Chain, block: u64) -> Result<(), NotMended> {
        let own = found.handle.target;
        let (Some(head), Some(_)) = (chain.head(), chain.member(own)) else { return Err(NotMended::NotYet) };
        let range = range_of(block);
        let except = self.stuck.touching((own, found.object.name), &range);
        if head.target == own {
            return self.mend_member(found, chain, own, block, &except).await;
        }
        let extent = |range: &Range<u64>| {
            let (offset, end) = (range.start, range.end);
            mend::Extent { offset, len: end.saturating_sub(offset) }
        };
        let args = mend::Args {
            handle: self.handle_of_member(found, chain, head),
            member: own,
            block,
            except: except.iter().map(extent).collect(),
        };
        let peer = self.peers.get(head.address, Use::Mend);
        let answer: Result<mend::Res, _> = peer.call(Procedure::Mend as u32, &args, HEAD_TIME_MAX).await;
        match answer {
            Ok(Ok(())) => Ok(()),
            Ok(Err(Status::Damaged)) => Err(NotMended::AllDamaged),
            Ok(Err(_)) | Err(_) => Err(NotMended::NotYet),
        }
    }

    /// MEND: mends a block of another member, which asks this head to.
    pub(crate) async fn mend_for_member(
        self: &Arc<Self>,
        found: Found,
        args: mend::Args,
    ) -> Result<(), Trouble> {
        if found.holder != Holder::Server || args.except.len() > EXCEPT_MAX {
            return Err(Status::Invalid.into());
        }
        let _place = self.place(&self.led, BLOCK_BYTES)?;
        let chain = self.of_version(&found.handle, 0).await?;
        let range = |extent: &mend::Extent| extent.offset..extent.offset.saturating_add(extent.len);
        let except: Vec<_> = args.except.iter().map(range).collect();
        let mended = self.mend_member(&found, &chain, args.member, args.block, &except).await;
        mended.map_err(|why| Status::from(why).into())
    }

    /// BLOCK: a block of this member, for the head, which has the lock. One that is refilled may have other bytes than
    /// the head.
    pub(crate) async fn block_for_head(&self, found: &Found, block: u64) -> Result<Bytes, Trouble> {
        if found.holder != Holder::Server || found.handle.chain_version == 0 {
            return Err(Status::Invalid.into());
        }
        let chain = self.of_version(&found.handle, 0).await?;
        chain.member(found.handle.target).ok_or(Status::StaleChain)?;
        let name = found.object.name;
        Ok(found.target.run(move |o| o.sound_block(name, block)).await?)
    }

    /// Mends a block of the member with target `member` as the head, whose own object is `found`.
    async fn mend_member(
        &self,
        found: &Found,
        chain: &Chain,
        member: u64,
        block: u64,
        except: &[Range<u64>],
    ) -> Result<(), NotMended> {
        let own = found.handle.target;
        let key = (own, found.object.name);
        // All places at once: between two of them a change could wait for one, and be waited for. And before changes
        // that wait for one that waits for this block.
        let asked: Vec<_> = outside(range_of(block), except)
            .into_iter()
            .map(|part| self.locks.ask_first(key, part, Kind::Shared))
            .collect();
        let deadline = Instant::now() + LOCK_TIME_MAX;
        let mut locks = Vec::with_capacity(asked.len());
        for asked in asked {
            locks.push(timeout_at(deadline, asked.held()).await.map_err(|_| NotMended::NotYet)?);
        }
        let now = self.table.serving(chain.id, own).map_err(|_| NotMended::NotYet)?;
        if now.version != chain.version || !now.is_head(own) {
            return Err(NotMended::NotYet);
        }
        let to = chain.member(member).ok_or(NotMended::NotYet)?;
        let bytes = self.sound_block(found, chain, to, block).await?;
        if member == own {
            let name = found.object.name;
            let mended = found.target.run(move |o| o.mend_block(name, block, &bytes)).await;
            return mended.map(drop).map_err(|error| {
                let is_of_disk =
                    matches!(error, ObjectError::Io | ObjectError::ReadOnly | ObjectError::NoSpace);
                if is_of_disk && self.has_other_in(found) {
                    self.own_failure(found, error);
                }
                NotMended::NotYet
            });
        }
        let fill = fill(range_of(block).start, bytes.into());
        let handle = self.handle_of_member(found, chain, to);
        let args = member::Args { handle, change: member::Change::Mend(fill) };
        let peer = self.peers.get(to.address, Use::Fetch);
        let answer: Result<member::Res, _> =
            peer.call(Procedure::Member as u32, &args, REWRITE_TIME_MAX).await;
        if answer == Ok(Ok(())) { Ok(()) } else { Err(NotMended::NotYet) }
    }

    /// The bytes of a block from a member that is in: the head itself, else another one than `to`. If all of them are
    /// damaged, from one that is refilled, and has the bytes that the head's sum is of.
    async fn sound_block(
        &self,
        found: &Found,
        chain: &Chain,
        to: &Member,
        block: u64,
    ) -> Result<Bytes, NotMended> {
        let own = found.handle.target;
        let mut why = NotMended::AllDamaged;
        if to.target != own {
            let name = found.object.name;
            match found.target.run(move |o| o.sound_block(name, block)).await {
                Ok(bytes) => return Ok(bytes),
                Err(ObjectError::Damaged | ObjectError::Lost) => {}
                Err(_) => why = NotMended::NotYet,
            }
        }
        let mut others: Vec<_> = chain.others(own).filter(|other| other.target != to.target).collect();
        others.sort_by_key(|other| other.is_refilling);
        for source in others {
            let args = block::Args { handle: self.handle_of_member(found, chain, source), block };
            let peer = self.peers.get(source.address, Use::Fetch);
            let answer: Result<block::Res, _> =
                peer.call(Procedure::Block as u32, &args, BLOCK_TIME_MAX).await;
            match answer {
                Ok(Ok(ok)) if ok.payload.len() <= BLOCK_BYTES => {
                    let bytes = ok.payload.to_bytes();
                    if crc32c::crc32c(&bytes) != ok.sum {
                        self.wrong_sum(found);
                        why = NotMended::NotYet;
                        continue;
                    }
                    if !source.is_refilling {
                        return Ok(bytes);
                    }
                    let name = found.object.name;
                    match found.target.run(move |o| o.fitting(name, block, bytes)).await {
                        Ok(Some(bytes)) => return Ok(bytes),
                        Ok(None) => {}
                        Err(_) => why = NotMended::NotYet,
                    }
                }
                Ok(Err(Status::Damaged | Status::ObjectLost)) => {}
                Ok(Err(Status::Stale | Status::StaleEpoch)) if source.is_refilling => {} // it does not have it yet
                _ => why = NotMended::NotYet,
            }
        }
        Err(why)
    }

    fn handle_of_member(&self, found: &Found, chain: &Chain, member: &Member) -> Bytes {
        let handle = ObjectHandle { target: member.target, chain_version: chain.version, ..found.handle };
        handle.seal_for(Holder::Server, &self.key)
    }
}

fn range_of(block: u64) -> Range<u64> {
    let start = block.saturating_mul(BLOCK);
    start..start.saturating_add(BLOCK)
}
