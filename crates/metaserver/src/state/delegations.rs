//! Delegations (RFC 8881, section 10.4): contended files, and delegation recall (CB_RECALL).
//!
//! The state machine grants delegations in the reply to an OPEN, and refuses commands that conflict with
//! them. This module recalls delegations, and then the refused command is proposed again, see
//! [`ClientState::propose`]. All state here is in memory only: after a restart of the server, a client has
//! one more lease for the return of its delegations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use namespace::{ClientId, Command, InodeId, State, StateId, Stateid, read};
use parking_lot::Mutex;
use tokio::sync::Notify;
use wire::nfs4::callback::{CbArgOp, RecallArgs};
use wire::nfs4::{self, Status};

use crate::compound::wire_stateid;
use crate::errors::FileError;
use crate::exports::admission::Via;
use crate::state::ClientState;

/// Time that an operation waits for recalled delegations. After it, the answer is DELAY, so that the
/// operation does not hold a session slot.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// Time without a return after which CB_RECALL is sent again: the reply with the delegation may still have
/// been under way, or the back channel may have been broken.
const CALL_AGAIN: Duration = Duration::from_secs(1);

/// Number of calls after which a client that knows no such delegation is believed: five seconds, in which the reply with it
/// has arrived.
const UNKNOWN_AFTER: u8 = 6;

/// Time without new delegations of a file after a recall: a file that was written is likely to be written
/// again.
const CONTENDED: Duration = Duration::from_secs(30);

/// Maximum of files remembered as contended: a megabyte. Forgetting one file costs one recall.
const CONTENDED_MAX: usize = 16_384;

/// Delegation recalls under way, contended files, and clients with revoked delegations.
#[derive(Default)]
pub(crate) struct Delegations {
    asked: Mutex<BTreeMap<StateId, Asked>>,
    contended: Mutex<BTreeMap<InodeId, Duration>>,
    revoked: Mutex<BTreeSet<ClientId>>,
    /// Clients that did not return a delegation for a lease, and when it was revoked: they are not waited for again.
    late: Mutex<BTreeMap<ClientId, Duration>>,
    /// Signals that a client does not know a recalled delegation.
    heard: Notify,
}

/// Times of the first and the last recall of a delegation, on the monotonic clock.
#[derive(Debug, Clone, Copy)]
struct Asked {
    first: Duration,
    last: Duration,
    /// Answers of the client that it has no such delegation.
    unknown: u8,
}

/// Next step for a delegation that conflicts with an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Call,
    Wait,
    /// The client has said [`UNKNOWN_AFTER`] times, one after the other, that it has no such delegation: a metaserver has died after its return. At
    /// first the reply with the delegation may have been under way.
    End,
    Revoke,
}

impl Delegations {
    fn next(&self, client: ClientId, delegation: StateId, now: Duration, lease: Duration) -> Next {
        let is_late =
            self.late.lock().get(&client).is_some_and(|revoked| now.saturating_sub(*revoked) < lease);
        if is_late {
            return Next::Revoke;
        }
        let mut asked = self.asked.lock();
        // Recalls without a waiting operation are dropped, so that the map stays small.
        asked.retain(|_, asked| now.saturating_sub(asked.last) < lease * 4);
        match asked.get_mut(&delegation) {
            None => {
                asked.insert(delegation, Asked { first: now, last: now, unknown: 0 });
                Next::Call
            }
            Some(asked) if asked.unknown >= UNKNOWN_AFTER => Next::End,
            Some(asked) if now.saturating_sub(asked.first) > lease => Next::Revoke,
            Some(asked) if now.saturating_sub(asked.last) >= CALL_AGAIN => {
                asked.last = now;
                Next::Call
            }
            Some(_) => Next::Wait,
        }
    }

    /// Notes that another metaserver has this one recall a delegation: the return of it is not to wait.
    pub(crate) fn note_called(&self, delegation: StateId, now: Duration, lease: Duration) {
        let mut asked = self.asked.lock();
        asked.retain(|_, asked| now.saturating_sub(asked.last) < lease * 4);
        asked.entry(delegation).or_insert(Asked { first: now, last: now, unknown: 0 });
    }

    /// True if others wait for this delegation.
    pub(crate) fn is_asked(&self, delegation: StateId) -> bool {
        self.asked.lock().contains_key(&delegation)
    }

    /// Notes the client's answer to CB_RECALL. BADHANDLE: it has no delegation of the file. (BAD_STATEID is also Linux's
    /// answer while it is giving this one back.)
    fn note_answer(&self, delegation: StateId, answer: Option<Status>) {
        if let Some(asked) = self.asked.lock().get_mut(&delegation) {
            asked.unknown =
                if answer == Some(Status::BadHandle) { asked.unknown.saturating_add(1) } else { 0 };
        }
        self.heard.notify_waiters();
    }

    /// Removes a delegation that was returned or revoked.
    pub(crate) fn settled(&self, delegation: StateId) {
        self.asked.lock().remove(&delegation);
    }

    /// The client has returned a delegation: it is waited for again.
    pub(crate) fn returned(&self, client: ClientId) {
        self.late.lock().remove(&client);
    }

    fn revokes(&self, client: ClientId, now: Duration, lease: Duration) {
        let mut late = self.late.lock();
        late.retain(|_, revoked| now.saturating_sub(*revoked) < lease);
        late.insert(client, now);
    }

    fn contend(&self, inode: InodeId, now: Duration) {
        let mut contended = self.contended.lock();
        contended.insert(inode, now);
        if contended.len() > CONTENDED_MAX {
            contended.retain(|_, last| now.saturating_sub(*last) < CONTENDED);
        }
        while contended.len() > CONTENDED_MAX {
            contended.pop_first();
        }
    }

    /// True if a delegation of this file was recalled within [`CONTENDED`].
    pub(crate) fn is_contended(&self, inode: InodeId, now: Duration) -> bool {
        let contended = self.contended.lock();
        contended.get(&inode).is_some_and(|last| now.saturating_sub(*last) < CONTENDED)
    }

    /// Notes that `client` has revoked delegations that it has not acknowledged yet.
    pub(crate) fn note_revoked(&self, client: ClientId) {
        self.revoked.lock().insert(client);
    }

    /// Replaces the set of clients with revoked delegations.
    pub(crate) fn set_revoked(&self, clients: impl IntoIterator<Item = ClientId>) {
        *self.revoked.lock() = clients.into_iter().collect();
    }

    /// Removes a client that has acknowledged all its revoked delegations, or has ended.
    pub(crate) fn forget_revoked(&self, client: ClientId) {
        self.revoked.lock().remove(&client);
    }

    /// True if SEQUENCE must report revoked delegations to the client.
    pub(crate) fn has_revoked(&self, client: ClientId) -> bool {
        self.revoked.lock().contains(&client)
    }
}

/// True if a delegation may conflict with the command. The caller keeps such a command, to propose it again.
pub(crate) fn may_conflict(command: &Command) -> bool {
    matches!(
        command,
        Command::Open(_)
            | Command::OpenOrDelegate(_)
            | Command::Link { .. }
            | Command::Remove { .. }
            | Command::Rename { .. }
            | Command::SetAttributes { .. }
            | Command::Wrote { .. }
            | Command::WriteInline { .. }
            | Command::SetXattr { .. }
            | Command::RemoveXattr { .. }
    )
}

impl ClientState {
    /// Recalls the delegations of `inode` from all clients but `except`.
    ///
    /// # Errors
    /// `Delay` while a delegation is not returned. A client that does not return it within a lease loses it.
    pub(crate) async fn recall_delegations(
        &self,
        inode: InodeId,
        except: Option<ClientId>,
    ) -> Result<(), FileError> {
        self.delegations.contend(inode, self.machine.clock.monotonic());
        let deadline = tokio::time::Instant::now() + WAIT_MAX;
        let writer = read::write_delegation(&*self.machine.view()?, inode)?;
        let writer = writer.filter(|writer| Some(*writer) != except);
        loop {
            let (returned, heard) = (self.state_returned.notified(), self.delegations.heard.notified());
            let holders = read::delegations(&*self.machine.view()?, inode)?;
            let mut others = holders.into_iter().filter(|(client, _)| Some(*client) != except).peekable();
            if others.peek().is_none() {
                if let Some(writer) = writer {
                    self.writer_closes(inode, writer).await?;
                }
                return Ok(());
            }
            for (client, delegation) in others {
                self.ask_delegation_back(inode, client, delegation).await?;
            }
            let again = tokio::time::Instant::now() + CALL_AGAIN;
            tokio::select! {
                biased;
                () = returned => {}
                () = heard => {}
                () = tokio::time::sleep_until(again.min(deadline)) => {
                    if again >= deadline {
                        return Err(FileError::Delay);
                    }
                }
            }
        }
    }

    async fn ask_delegation_back(
        &self,
        inode: InodeId,
        client: ClientId,
        delegation: Stateid,
    ) -> Result<(), FileError> {
        let file = {
            let view = self.machine.view()?;
            if self.yields_to_conflict(&*view, [client])? {
                return Ok(()); // lapsed, and soon expired
            }
            self.machine.inode(&*view, inode)?
        };
        let (now, lease) = (self.machine.clock.monotonic(), self.cluster.lease());
        if self.returns.has(delegation.id) {
            self.returns.hurry();
            return Ok(());
        }
        match self.delegations.next(client, delegation.id, now, lease) {
            Next::Wait => {}
            Next::Call => {
                let held = read::state(&*self.machine.view()?, delegation.id)?;
                let Some(State::Delegation(held)) = held else { return Ok(()) }; // returned meanwhile
                if held.writes() {
                    self.recall_closed_files_of(client);
                }
                let fh = self.machine.handle(Via::Export(held.export), inode, file.generation).into();
                let args = RecallArgs { stateid: wire_stateid(delegation), truncate: false, fh };
                // The recall ends with DELEGRETURN, whatever the client answers, unless it does not know the delegation.
                let (all, call) =
                    (Arc::clone(&self.delegations), self.call_back(client, CbArgOp::Recall(args)));
                tokio::spawn(async move {
                    all.note_answer(delegation.id, call.await.ok());
                });
            }
            Next::End => {
                tracing::debug!(client = client.0, "does not know its delegation, which ends");
                self.end_delegation(client, delegation).await?;
                self.delegations.settled(delegation.id);
                self.note_returned();
            }
            Next::Revoke => {
                tracing::warn!(
                    client = client.0,
                    "a recalled delegation was not returned for a lease: revoked"
                );
                self.delegations.revokes(client, now, lease);
                // Report before revocation: SEQUENCE reports a revoked delegation from the first moment.
                self.delegations.note_revoked(client);
                self.machine
                    .propose_once(None, Command::DelegationRevoke { client, delegation: delegation.id })
                    .await?;
                self.delegations.settled(delegation.id);
                self.note_returned();
            }
        }
        Ok(())
    }

    /// Notes a CB_RECALL that another metaserver has this one send.
    pub(crate) fn note_recall_for_another(&self, op: &CbArgOp) {
        if let CbArgOp::Recall(args) = op
            && let Ok(recalled) = crate::compound::stateid(&args.stateid)
        {
            let (now, lease) = (self.machine.clock.monotonic(), self.cluster.lease());
            self.delegations.note_called(recalled.id, now, lease);
        }
    }

    /// True if a recalled delegation was returned here a moment ago: it is ended at once.
    pub(crate) fn has_returned(&self, recalled: nfs4::Stateid) -> bool {
        let returned =
            crate::compound::stateid(&recalled).is_ok_and(|recalled| self.returns.has(recalled.id));
        if returned {
            self.returns.hurry();
        }
        returned
    }

    /// Ends the report of revoked delegations if FREE_STATEID freed the client's last one.
    pub(crate) fn acknowledged(&self, client: ClientId) -> Result<(), FileError> {
        if self.delegations.has_revoked(client) && !read::revoked(&*self.machine.view()?)?.contains(&client) {
            self.delegations.forget_revoked(client);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_delegation_is_called_back_again_and_revoked_after_a_lease() {
        let delegations = Delegations::default();
        let (ash, elm) = (ClientId(1), ClientId(2));
        let next = |at| delegations.next(ash, StateId(7), s(at), s(30));
        assert_eq!(
            (next(100), next(100), next(101), next(130)),
            (Next::Call, Next::Wait, Next::Call, Next::Call)
        );
        assert_eq!(next(131), Next::Revoke);
        delegations.settled(StateId(7));
        assert_eq!(next(132), Next::Call);
        // One that the client does not know ends when it has said so often enough, one after the other.
        let says = |status| delegations.note_answer(StateId(7), Some(status));
        for at in 133..138 {
            says(Status::BadHandle);
            assert_eq!(next(at), Next::Call);
        }
        says(Status::BadStateid);
        assert_eq!(next(138), Next::Call);
        (0..UNKNOWN_AFTER).for_each(|_| says(Status::BadHandle));
        assert_eq!(next(138), Next::End);
        delegations.settled(StateId(7));
        says(Status::BadHandle);
        assert_eq!(next(139), Next::Call);
        // One that was late is not waited for again, until it has returned something.
        delegations.revokes(ash, s(140), s(30));
        assert_eq!(delegations.next(ash, StateId(8), s(169), s(30)), Next::Revoke);
        assert_eq!(delegations.next(elm, StateId(9), s(169), s(30)), Next::Call);
        delegations.returned(ash);
        assert_eq!(delegations.next(ash, StateId(8), s(169), s(30)), Next::Call);
    }

    #[test]
    fn a_file_stays_contended_for_a_while_and_the_memory_of_it_is_bounded() {
        let delegations = Delegations::default();
        delegations.contend(InodeId(9), s(100));
        assert!(delegations.is_contended(InodeId(9), s(129)));
        assert!(!delegations.is_contended(InodeId(9), s(130)));
        for inode in 0..2 * CONTENDED_MAX as u64 {
            delegations.contend(InodeId(inode), s(200));
        }
        assert!(delegations.contended.lock().len() <= CONTENDED_MAX);
    }
}
