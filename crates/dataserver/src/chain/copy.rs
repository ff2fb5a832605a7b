//! COPY into an object with copies. The head copies, and sends what its range holds then to the other
//! members, in pieces: the source need not be readable for them, and all get the same bytes.

use std::ops::Range;
use std::sync::Arc;

use tokio::time::{Instant, timeout_at};
use wire::data::{Piece, Procedure, Status, copy, seek};
use wire::handle::ObjectHandle;
use wire::xdr::Payload;

use super::forward::{NotPassed, done};
use super::locks::{Kind, RangeLock, WHOLE};
use super::objects::Ready;
use super::table::{Chain, Member};
use super::{CALL_TIME_MAX, Caller, Chains, Change, Done, Trouble};
use crate::checksums::sums_of_pieces;
use crate::found::Found;
use crate::peers::Use;
use crate::pull::Room;
use crate::ranges::Run;

/// Bytes that are sent to the next member at a time.
const PART_BYTES: u64 = 1 << 20;
/// Time limit of the next member's answer how long its object is.
const LENGTH_TIME_MAX: std::time::Duration = std::time::Duration::from_secs(10);

/// Source of a copy.
pub(crate) enum Source {
    /// An object of this server.
    Here(Found),
    /// An object of another one.
    There,
}

impl Chains {
    /// Copies into the object of `found`.
    pub(crate) async fn copy(
        self: &Arc<Self>,
        found: Found,
        source: Source,
        args: copy::Args,
        caller: Caller,
    ) -> Result<Done, Trouble> {
        let deadline = Instant::now() + CALL_TIME_MAX;
        let place = self.place(&self.led, 0)?;
        let chain = self.serving(&found.handle, caller).await?;
        if chain.is_head(found.handle.target) {
            self.same_epoch(&found, caller).await?;
            let chains = Arc::clone(self);
            return self
                .finish(deadline, async move {
                    let _place = place;
                    chains.copy_as_head(found, source, args, caller, deadline).await
                })
                .await;
        }
        let head = chain.head().ok_or(Status::ChainWaits)?;
        let handle = ObjectHandle { target: head.target, ..found.handle };
        let relayed = copy::Args { handle: handle.seal_for(found.holder, &self.key), ..args };
        let left = deadline.saturating_duration_since(Instant::now());
        let peer = self.peers.get(head.address, Use::Relay);
        let answer: Result<copy::Res, _> = peer.call(Procedure::Copy as u32, &relayed, left).await;
        match answer {
            Ok(answer) => Ok(Done { verifier: answer?.verifier, reserve: None }),
            Err(_) => Err(Trouble::Unknown),
        }
    }

    async fn copy_as_head(
        self: Arc<Self>,
        found: Found,
        source: Source,
        args: copy::Args,
        caller: Caller,
        deadline: Instant,
    ) -> Result<Done, Trouble> {
        let to = Key::of(&found);
        // In one order of all objects, or two copies could wait for one another.
        let (lock, from_lock) = match &source {
            Source::Here(from) if Key::of(from) == to => (self.lock_to_copy(&found, deadline).await?, None),
            Source::Here(from) if from.handle.has_copies() && Key::of(from) < to => {
                let from_lock = self.lock_to_read(from, WHOLE, caller).await?;
                (self.lock_to_copy(&found, deadline).await?, Some(from_lock))
            }
            Source::Here(from) if from.handle.has_copies() => {
                let lock = self.lock_to_copy(&found, deadline).await?;
                (lock, Some(self.lock_to_read(from, WHOLE, caller).await?))
            }
            _ => (self.lock_to_copy(&found, deadline).await?, None),
        };
        if !self.serving(&found.handle, caller).await?.is_head(found.handle.target) {
            return Err(Status::StaleChain.into());
        }
        let object = found.object;
        match found.target.run(move |o| o.prepare(object, 0..0, 0)).await {
            Ok(Ready::Now) => {}
            // Raised by another call just now.
            Ok(Ready::LaterEpoch) => return Err(Status::ChainWaits.into()),
            Err(error) => return Err(self.not_prepared(&found, error).await),
        }
        for piece in &args.pieces {
            let range = piece.to..piece.to.saturating_add(piece.len);
            self.dirty.note(found.handle.chain, object.name, range);
        }
        let copied = match &source {
            Source::Here(from) => {
                let (from_target, from, pieces) =
                    (Arc::clone(&from.target), from.object, args.pieces.clone());
                let work = move |o: &crate::Objects| o.copy(object, from_target.objects(), from, &pieces);
                found.target.run(work).await.map_err(crate::data_program::refusal)
            }
            Source::There => {
                let pull = self.pull.pull(&found.target, object, &args.address, args.source, &args.pieces);
                pull.await
            }
        };
        drop(from_lock);
        // Also after a failure: some of the bytes may have been copied.
        let sent = self.send_ranges(&found, &args.pieces).await;
        if let (Err(Status::ObjectLost), Source::Here(from)) = (copied, &source)
            && from.handle.has_copies()
        {
            return Err(self.lost(from).await);
        }
        copied?;
        sent?;
        if args.stable {
            let commit = self.pass_on_own(&found, &Change::Commit);
            commit.await?;
        }
        drop(lock);
        let chain = self.table.serving(found.handle.chain, found.handle.target)?;
        Ok(done(&found, &chain, None))
    }

    async fn lock_to_copy(&self, found: &Found, deadline: Instant) -> Result<RangeLock, Status> {
        let asked =
            self.locks.ask((found.handle.target, found.object.name), WHOLE, Kind::Alone(found.handle.chain));
        timeout_at(deadline, asked.held()).await.map_err(|_| Status::ChainWaits)
    }

    async fn pass_on_own(self: &Arc<Self>, found: &Found, change: &Change) -> Result<(), Trouble> {
        let (own, passed) = tokio::join!(change.own_work(found), self.pass_on(found, change));
        own.map_err(|error| self.own_failure(found, error))?;
        passed.map(drop).map_err(|_| Status::StaleChain.into())
    }

    /// Sends the own bytes of these ranges to the other members, again if the chain changes meanwhile.
    async fn send_ranges(self: &Arc<Self>, found: &Found, pieces: &[Piece]) -> Result<(), Trouble> {
        let id = found.handle.chain;
        let version = || self.table.get(id).map(|chain| chain.version);
        // A copy leaves nothing behind the end of its target.
        let object = found.object;
        let length = found.target.run(move |o| o.length(object)).await;
        let length = length.map_err(|error| self.own_failure(found, error))?;
        loop {
            let began = version();
            for piece in pieces {
                let end = piece.to.saturating_add(piece.len).min(length);
                for from in (piece.to..end).step_by(PART_BYTES as usize) {
                    let part = from..end.min(from.saturating_add(PART_BYTES));
                    if let Some(status) = self.send_range(found, part).await? {
                        // None of what this member has copied counts, also of the ranges after this one.
                        for Piece { to, len, .. } in pieces {
                            self.undo(found, &Change::Punch { offset: *to, len: *len }).await?;
                        }
                        self.take_length_of_next(found).await?;
                        return Err(status.into());
                    }
                }
            }
            if version() == began {
                return Ok(());
            }
        }
    }

    /// Sends a range. Returns the status with which the next member refused it, if it did.
    async fn send_range(
        self: &Arc<Self>,
        found: &Found,
        range: Range<u64>,
    ) -> Result<Option<Status>, Trouble> {
        let (object, from) = (found.object, range.clone());
        let runs =
            found.target.run(move |o| o.read_runs(object, from.start, (from.end - from.start) as usize));
        let mut at = range.start;
        for run in runs.await.map_err(|error| self.own_failure(found, error))? {
            let (len, change) = match run {
                Run::Data(data) => {
                    let data = Payload::from(data);
                    let sums = sums_of_pieces(at, &data).into();
                    (data.len() as u64, Change::Write { offset: at, data, sums, stable: false })
                }
                Run::Hole(len) => (len, Change::Punch { offset: at, len }),
            };
            match self.pass_on(found, &change).await {
                Ok(_) => at += len,
                Err(NotPassed::NoMember) => return Err(Status::StaleChain.into()),
                Err(NotPassed::Refused(status)) => return Ok(Some(status)),
            }
        }
        Ok(None)
    }

    /// Makes this member's range what the next member's is, after that one refused a change.
    pub(super) async fn undo(&self, found: &Found, change: &Change) -> Result<(), Trouble> {
        let object = found.object;
        if matches!(change, Change::Make | Change::Remove | Change::Allocate { .. }) {
            return Ok(());
        }
        if let Change::Attach { .. } = change {
            return self.own_length(found, 0).await;
        }
        let Range { start, end } = change.range();
        let piece = Piece { from: start, to: start, len: end - start };
        loop {
            let chain = self.table.get(found.handle.chain).ok_or(Status::StaleChain)?;
            chain.member(found.handle.target).ok_or(Status::StaleChain)?;
            let Some(next) = next_in(&chain, found) else { return Ok(()) };
            let handle = ObjectHandle { target: next.target, chain_version: chain.version, ..found.handle };
            let source = handle.seal_for(found.holder, &self.key);
            let pulled = self
                .pull
                .pull_from(&found.target, (object, Room::Taken), next.address, source, &[piece])
                .await;
            match pulled {
                Ok(()) => return Ok(()),
                Err(_) => self.table.later_or_pause(chain.id, chain.version).await,
            }
        }
    }
}

impl Chains {
    /// Sets the length of this member's object.
    pub(super) async fn own_length(&self, found: &Found, len: u64) -> Result<(), Trouble> {
        let name = found.object.name;
        let set = found.target.run(move |o| o.set_length(name, len)).await;
        set.map_err(|error| self.own_failure(found, error))
    }

    /// Makes this member's object as long as the next member's, after that one refused a write: else the object
    /// could be longer here, by zeros. `lock`: that of the write. Nothing that waits for it sees the zeros: the
    /// question whether a column is empty, before the column moves to another chain.
    pub(super) async fn undo_length(&self, found: &Found, lock: RangeLock) -> Result<(), Trouble> {
        // No other change is under way: what the next member has is what all have.
        let _lock = lock.widen().held().await;
        self.take_length_of_next(found).await
    }

    /// The same; the whole object is locked.
    async fn take_length_of_next(&self, found: &Found) -> Result<(), Trouble> {
        let (target, object, id) = (&found.target, found.object, found.handle.chain);
        loop {
            let chain = self.table.get(id).ok_or(Status::StaleChain)?;
            chain.member(found.handle.target).ok_or(Status::StaleChain)?;
            let Some(next) = next_in(&chain, found) else { return Ok(()) };
            let handle = ObjectHandle { target: next.target, chain_version: chain.version, ..found.handle };
            let args = seek::Args {
                handle: handle.seal_for(found.holder, &self.key),
                offset: 0,
                what: seek::What::End,
            };
            let peer = self.peers.get(next.address, Use::Fetch);
            let answer: Result<seek::Res, _> =
                peer.call(Procedure::Seek as u32, &args, LENGTH_TIME_MAX).await;
            match answer {
                Ok(Ok(seek::ResOk { found: Some(len) })) => {
                    let shorten = move |o: &crate::Objects| match o.length(object)? > len {
                        true => o.set_length(object.name, len),
                        false => Ok(()),
                    };
                    return target.run(shorten).await.map_err(|error| self.own_failure(found, error));
                }
                Err(_) | Ok(Err(Status::StaleChain | Status::ChainWaits)) => {
                    self.table.later_or_pause(id, chain.version).await;
                }
                // It was removed meanwhile, or its disk fails: then it leaves.
                Ok(_) => return Ok(()),
            }
        }
    }
}

/// The next member, if it is in. One that is being refilled has not all data: what it lacks must not be lost here.
/// It gets what this member has.
fn next_in<'a>(chain: &'a Chain, found: &Found) -> Option<&'a Member> {
    chain.next(found.handle.target).filter(|next| !next.is_refilling)
}

/// Order of objects for locks.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key(u64, crate::ObjectName);

impl Key {
    fn of(found: &Found) -> Self {
        Self(found.handle.target, found.object.name)
    }
}
