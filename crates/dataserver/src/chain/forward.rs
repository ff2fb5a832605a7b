//! Forwarding: changes that come from the member before this one, and their way to the next.

use std::sync::Arc;
use std::time::Duration;

use nfs::{CallFailure, ConnectionId};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};
use wire::data::Status;
use wire::handle::ObjectHandle;
use wire::xdr::{Decode, DecodeError, Decoder};

use super::change::is_own_trouble;
use super::locks::{Kind, RangeLock};
use super::table::{Chain, Member};
use super::{CALL_TIME_MAX, Chains, Change, Done, Sender, Trouble};
use crate::found::Found;
use crate::objects::ObjectError;
use crate::peers::Use;
use crate::ranges::Reserve;

/// Time limit of the next member's answer to one call. A member that is hung is taken out of the chain
/// sooner; longer than all waits at the member but that for its own next one.
const FORWARD_TIME_MAX: Duration = Duration::from_secs(10);
/// Attempts before a change that waits is logged: a second and a half.
const WARN_AFTER: u32 = 16;
/// Pause between such lines in the log, of all chains.
const WARN_PAUSE: Duration = Duration::from_secs(5);
/// Attempts at a change whose block is damaged here alone, and the pause between them. After them this member
/// must leave the chain, for the others have the change.
const DAMAGED_ATTEMPTS: u32 = 20;
const DAMAGED_PAUSE: Duration = Duration::from_millis(100);
/// Time that a change waits for the lock of its object, if it gives way to one on another chain.
const GIVES_WAY_AFTER: Duration = Duration::from_secs(1);
/// Pause before a change that finds no room is tried again.
const NO_ROOM_PAUSE: Duration = Duration::from_millis(500);
/// Time that a member waits to hear of the version of a forwarded change.
const VERSION_HOLD: Duration = Duration::from_secs(2);

/// Status of an answer, without the results after it.
pub(super) struct Outcome(pub Result<(), Status>);

impl Decode for Outcome {
    fn decode(d: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(Self(match Status::decode(d)? {
            Status::Ok => Ok(()),
            status => Err(status),
        }))
    }
}

/// Reason why a change did not reach all members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotPassed {
    /// This target is no member any more, or not without a break: its change does not count, and is undone when
    /// the target is refilled.
    NoMember,
    /// The next member has no room for the change, or cannot do it, or it covers a part of a block that is
    /// damaged at all members, or it is a MAKE from before its object came to another chain, or gives way to a change on
    /// another chain; and it has done nothing.
    Refused(Status),
}

impl Chains {
    /// A change from the member before this one. Everything up to the place in the lock's queue is done at
    /// the first poll, which comes in the order of the connection's calls.
    pub(super) async fn forwarded(
        self: &Arc<Self>,
        found: Found,
        mut change: Change,
        connection: ConnectionId,
    ) -> Result<Done, Trouble> {
        let chain = self.of_version(&found.handle, change.payload_bytes()).await?;
        let member = chain.member(found.handle.target).ok_or(Status::StaleChain)?;
        let is_refilling = member.is_refilling;
        let place = match chain.next(member.target) {
            Some(_) => Some(self.place(&self.forwarded, change.payload_bytes())?),
            None => None,
        };
        self.check_sender(&found.handle, Sender::Forwards, connection)?;
        let deadline = Instant::now() + CALL_TIME_MAX;
        let key = (member.target, found.object.name);
        let asked = self.locks.ask(key, change.range(), Kind::Alone(chain.id));
        let waiting = self.metrics.waits();
        let gives_way = change.gives_way();
        let until = if gives_way { Instant::now() + GIVES_WAY_AFTER } else { deadline };
        let Ok(lock) = timeout_at(until, asked.held()).await else {
            let is_other = gives_way && self.locks.is_of_other_chain(&key, chain.id);
            return Err(if is_other { Status::OtherChain } else { Status::ChainWaits }.into());
        };
        drop(waiting);
        let chains = Arc::clone(self);
        self.finish(deadline, async move {
            let _place = place;
            // It may have waited for a lock while the chain changed: a copy of the change could be ahead of
            // it.
            chains.still_of_version(&found.handle)?;
            change.check_sums().inspect_err(|_| chains.wrong_sum(&found))?;
            match change.prepare(&found, is_refilling, &chains.dirty).await {
                Ok(_) => {
                    let handle = found.handle;
                    let done = chains.carry_out(found, change, lock).await?;
                    // In a later version fewer members may have it, and the sender would not note that for those that
                    // lack it: it sends the change again in the version that it hears of.
                    chains.still_of_version(&handle)?;
                    Ok(done)
                }
                Err(error) => Err(chains.not_prepared(&found, error).await),
            }
        })
        .await
    }

    /// The answer to an error before any member has begun the change.
    pub(super) async fn not_prepared(&self, found: &Found, error: ObjectError) -> Trouble {
        match error {
            ObjectError::NoSpace if self.is_refilled_here(found) => self.own_failure(found, error),
            // Its file system has shorter files than those of the members that are in.
            ObjectError::TooLarge if self.is_refilled_here(found) && self.leave(found, error) => {
                Status::ChainWaits.into()
            }
            ObjectError::NoSpace => error.into(),
            ObjectError::Busy => Status::ChainWaits.into(),
            ObjectError::Lost if found.handle.chain_version == 0 => self.lost(found).await,
            _ => self.own_failure(found, error),
        }
    }

    /// The chain of a call that names a version. One that is later than what is known here is refused after
    /// it has been heard of: the sender repeats the call, and so keeps its order. `bytes`: memory that the
    /// call holds.
    pub(super) async fn of_version(&self, handle: &ObjectHandle, bytes: usize) -> Result<Arc<Chain>, Status> {
        let known = self.table.get(handle.chain);
        match known.as_ref().map(|chain| chain.version.cmp(&handle.chain_version)) {
            Some(std::cmp::Ordering::Equal) => known.ok_or(Status::ChainWaits),
            Some(std::cmp::Ordering::Greater) => Err(Status::StaleChain),
            Some(std::cmp::Ordering::Less) | None => {
                let _place = self.place(&self.forwarded, bytes)?;
                let _waiting = self.metrics.waits();
                let before = handle.chain_version.saturating_sub(1);
                let heard = self.table.later_than(handle.chain, before);
                let _ = tokio::time::timeout(VERSION_HOLD, heard).await;
                Err(Status::ChainWaits)
            }
        }
    }

    /// Counts a call whose bytes do not fit their sums.
    pub(super) fn wrong_sum(&self, found: &Found) {
        self.metrics.wrong_sums.inc();
        tracing::error!(
            target = %found.target.path().display(), object = %found.object.name,
            "bytes from another data server do not fit their sums, and are refused: they changed on the network, or in the memory of \
             this machine or the other; the call is repeated"
        );
    }

    fn still_of_version(&self, handle: &ObjectHandle) -> Result<(), Status> {
        let version = self.table.get(handle.chain).map(|chain| chain.version);
        if version == Some(handle.chain_version) { Ok(()) } else { Err(Status::StaleChain) }
    }

    /// Refuses a change that comes by an earlier connection than another of the same version.
    pub(super) fn check_sender(
        &self,
        handle: &ObjectHandle,
        sender: Sender,
        connection: ConnectionId,
    ) -> Result<(), Status> {
        let version = handle.chain_version;
        let mut senders = self.senders.lock();
        let latest = senders.entry((handle.chain, handle.target, sender)).or_insert((version, connection));
        if latest.0 != version {
            *latest = (version, connection);
        }
        latest.1 = latest.1.max(connection);
        if latest.1 == connection { Ok(()) } else { Err(Status::ChainWaits) }
    }

    /// Memory for a call of a server that waits for another server.
    pub(super) fn place(
        &self,
        of: &Arc<tokio::sync::Semaphore>,
        bytes: usize,
    ) -> Result<OwnedSemaphorePermit, Status> {
        let kib = 1 + u32::try_from(bytes / 1024).unwrap_or(u32::MAX - 1);
        Arc::clone(of).try_acquire_many_owned(kib).map_err(|_| Status::ChainWaits)
    }

    /// Waits for `work`, which goes on by itself when the caller is answered or goes away.
    pub(super) async fn finish<T: Send + 'static>(
        &self,
        deadline: Instant,
        work: impl Future<Output = Result<T, Trouble>> + Send + 'static,
    ) -> Result<T, Trouble> {
        let mut task = tokio::spawn(work);
        if let Ok(done) = timeout_at(deadline, &mut task).await {
            return done.unwrap_or(Err(Trouble::Unknown));
        }
        match Arc::clone(&self.unanswered).try_acquire_owned() {
            Ok(place) => {
                tokio::spawn(async move {
                    let _ = task.await;
                    drop(place);
                });
                Err(Trouble::Unknown)
            }
            Err(_) => task.await.unwrap_or(Err(Trouble::Unknown)),
        }
    }

    /// Does a prepared change at this member and at all after it. The lock is held until then.
    pub(super) async fn carry_out(
        self: &Arc<Self>,
        found: Found,
        change: Change,
        lock: RangeLock,
    ) -> Result<Done, Trouble> {
        let length = match change {
            Change::Allocate { .. } => {
                let object = found.object;
                Some(found.target.run(move |o| o.length(object)).await?)
            }
            _ => None,
        };
        self.dirty.note(found.handle.chain, found.object.name, change.dirty_range());
        let mut attempts = 0;
        let (own, passed) = loop {
            let (own, passed) = match change.is_own_first() {
                true => match change.own_work(&found).await {
                    Ok(done) => (Ok(done), self.pass_on(&found, &change).await),
                    Err(error) => {
                        // It may be longer, by a part of what was asked for.
                        if let Some(length) = length {
                            self.own_length(&found, length).await?;
                        }
                        return Err(self.not_prepared(&found, error).await);
                    }
                },
                false => tokio::join!(self.own_work(&found, &change), self.pass_on(&found, &change)),
            };
            match (&own, &passed) {
                // No member has the whole block, of which the change covers a part. None has changed it.
                (Err(ObjectError::Damaged), Err(NotPassed::Refused(Status::Damaged))) => {
                    return Err(Status::Damaged.into());
                }
                (Err(ObjectError::Damaged), Ok(chain)) if !chain.has_next_in(found.handle.target) => {
                    return Err(Status::Damaged.into());
                }
                // By now another member has the block whole.
                (Err(ObjectError::Damaged), Ok(_)) if attempts < DAMAGED_ATTEMPTS => {}
                // The disk is full beyond what was taken for this, and a member that is refilled has the change by now, or
                // does not want it. This one can neither leave nor refuse it, for a part of it may be here. Either room
                // comes, or that member is in.
                (
                    Err(ObjectError::NoSpace),
                    Ok(_)
                    | Err(NotPassed::Refused(
                        Status::Damaged | Status::NoSpace | Status::Invalid | Status::NotSupported,
                    )),
                ) if self.has_only_refilled(&found) => {
                    tokio::time::sleep(NO_ROOM_PAUSE).await;
                    continue;
                }
                (Ok(_), Err(NotPassed::Refused(Status::Damaged))) => {}
                _ => break (own, passed),
            }
            attempts += 1;
            tokio::time::sleep(DAMAGED_PAUSE).await;
        };
        let mut passed = passed;
        // A member may have joined while this one was at work, after the others had done theirs.
        while let Ok(chain) = &passed
            && let Some(now) = self.table.get(chain.id).filter(|now| now.version > chain.version)
        {
            let is_in = now.member(found.handle.target).is_some_and(|own| !own.is_refilling);
            passed = if is_in { self.pass_on(&found, &change).await } else { Err(NotPassed::NoMember) };
        }
        if passed == Err(NotPassed::NoMember) {
            return Err(Status::StaleChain.into());
        }
        let reserve = match (own, &passed) {
            // A part may have been written here, which is taken back below.
            (Err(ObjectError::TooLarge), Err(NotPassed::Refused(Status::Invalid))) => None,
            // Of a MAKE, no member has anything.
            (Err(ObjectError::NoSpace), Err(NotPassed::Refused(_))) if self.has_only_refilled(&found) => None,
            // The file system told a longer file than it has.
            (Err(error @ ObjectError::TooLarge), Ok(chain)) if chain.has_next_in(found.handle.target) => {
                self.leave(&found, error);
                return Err(Status::ChainWaits.into());
            }
            (own, _) => own.map_err(|error| self.own_failure(&found, error))?,
        };
        match passed {
            Ok(chain) => {
                if matches!(change, Change::Remove) && self.dirty.is_degraded(chain.id) {
                    let (name, id) = (found.object.name, chain.id);
                    let noted = found.target.run(move |o| o.note_removal(&name, id)).await;
                    noted.map_err(|error| self.own_failure(&found, error))?;
                }
                drop(lock);
                Ok(done(&found, &chain, reserve))
            }
            Err(NotPassed::NoMember) => Err(Status::StaleChain.into()),
            Err(NotPassed::Refused(status)) => {
                self.undo(&found, &change).await?;
                if let Change::Write { .. } | Change::Allocate { .. } = change {
                    self.undo_length(&found, lock).await?;
                }
                Err(status.into())
            }
        }
    }

    /// The answer to an error of the own work that the other members may not have. This target must leave the
    /// chain then, and is refilled later; the caller comes again when it has left.
    ///
    /// After a failed disk nothing is believed of the target. For want of room or of the object, and on a
    /// read-only file system, the member leaves this chain alone.
    pub(super) fn own_failure(&self, found: &Found, error: ObjectError) -> Trouble {
        let lacks = match error {
            ObjectError::NoSpace | ObjectError::ReadOnly | ObjectError::Lost => true,
            // The member that sent the change has the object.
            ObjectError::Stale => found.handle.chain_version != 0,
            _ => false,
        };
        if lacks && self.leave(found, error) {
            return Status::ChainWaits.into();
        }
        // The chain has gone on without this target while it was at work: the chain needs nothing of it.
        if lacks && !self.is_member(found) {
            return Status::StaleChain.into();
        }
        if !is_own_trouble(error) {
            return error.into();
        }
        // No member differs. A member that comes back can be refilled from a read-only one, which leaves then.
        if lacks && self.is_alone(found) {
            return if error == ObjectError::ReadOnly { Status::ChainWaits.into() } else { error.into() };
        }
        if !found.target.objects().failed() {
            tracing::error!(
                target = %found.target.path().display(), object = %found.object.name, %error,
                "an operation failed at this member of a chain: nothing is served from the target any more, and the other members go \
                 on. Check its disk (dmesg, smartctl), then restart the data server"
            );
            found.target.objects().fail();
        }
        Status::ChainWaits.into()
    }

    /// Sends a change to the next member until all members of the latest known version have it. Returns the
    /// chain in this version. A member that is refilled sends on only what began in the same version.
    pub(super) async fn pass_on(&self, found: &Found, change: &Change) -> Result<Arc<Chain>, NotPassed> {
        let ObjectHandle { chain: id, target: own, .. } = found.handle;
        let mut attempts = 0u32;
        loop {
            // Known before: this target was a member.
            let chain = self.table.get(id).ok_or(NotPassed::NoMember)?;
            let member = chain.member(own).ok_or(NotPassed::NoMember)?;
            // It was out meanwhile, and the change may be older than what the head has compared at the next one.
            if member.is_refilling && chain.version != found.handle.chain_version {
                return Err(NotPassed::NoMember);
            }
            let Some(next) = chain.next(own) else { return Ok(chain) };
            if attempts > 0 {
                self.metrics.forward_retries.inc();
            }
            attempts = attempts.saturating_add(1);
            let answer = tokio::select! {
                biased;
                answer = self.send(found, change, &chain, next) => answer,
                () = self.table.later_than(id, chain.version) => continue,
            };
            let why = match answer {
                // Known to have come to all: unless the chain has changed since.
                Ok(Ok(())) if self.table.get(id).is_some_and(|now| now.version == chain.version) => {
                    return Ok(chain);
                }
                Ok(Ok(())) => continue,
                Ok(Err(
                    status @ (Status::NoSpace | Status::Invalid | Status::NotSupported | Status::Damaged),
                )) if change.can_be_taken_back() => {
                    return Err(NotPassed::Refused(status));
                }
                Ok(Err(status @ Status::OtherChain)) => return Err(NotPassed::Refused(status)),
                // Its object is on another chain by now.
                Ok(Err(status @ Status::StaleEpoch)) if matches!(change, Change::Make) => {
                    return Err(NotPassed::Refused(status));
                }
                Ok(Err(status)) => {
                    let is_own_fault = status == Status::WrongSum && change.clone().check_sums().is_err();
                    assert!(
                        !is_own_fault,
                        "bytes have changed in the memory of this machine: it cannot go on"
                    );
                    format!("it answers {status:?}")
                }
                Err(error) => error.to_string(),
            };
            if attempts >= WARN_AFTER && self.may_warn() {
                tracing::warn!(
                    chain = %format!("{id:016x}"), version = chain.version, member = %next.address, attempts, %why,
                    "a change waits for the next member of its chain; it is sent again until the member answers or leaves the chain"
                );
            }
            self.table.later_or_pause(id, chain.version).await;
        }
    }

    pub(super) fn may_warn(&self) -> bool {
        let mut last = self.warned.lock();
        let may = last.is_none_or(|last| last.elapsed() >= WARN_PAUSE);
        if may {
            *last = Some(Instant::now());
        }
        may
    }

    async fn send(
        &self,
        found: &Found,
        change: &Change,
        chain: &Chain,
        next: &Member,
    ) -> Result<Result<(), Status>, CallFailure> {
        self.metrics.forwards.inc();
        let handle = ObjectHandle { target: next.target, chain_version: chain.version, ..found.handle };
        let call = change.call(handle.seal_for(found.holder, &self.key));
        let peer = self.peers.get(next.address, Use::Forward);
        let outcome: Outcome = peer.call(call.procedure() as u32, &call, FORWARD_TIME_MAX).await?;
        Ok(outcome.0)
    }
}

pub(super) fn done(found: &Found, chain: &Chain, reserve: Option<Reserve>) -> Done {
    let reserve = reserve.map(|reserve| (reserve, found.target.file_system()));
    Done { verifier: chain.verifier, reserve }
}
