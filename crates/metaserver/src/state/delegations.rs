//! Read delegations (RFC 8881, section 10.4): files that are worth one, and delegation recall (CB_RECALL).
//!
//! The state machine grants them with an OPEN and refuses what they forbid; here they are called back, and
//! what they were in the way of is proposed again, see [`ClientState::propose`]. What is remembered here is
//! memory only: a server that starts again gives a client one more lease to return what it has.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use namespace::{ClientId, Command, InodeId, State, StateId, Stateid, read};
use parking_lot::Mutex;
use wire::nfs4::callback::{CbArgOp, RecallArgs};

use crate::compound::wire_stateid;
use crate::errors::FileError;
use crate::exports::admission::Via;
use crate::state::ClientState;

/// An operation waits this long for delegations; then its client is told to come again, so that no slot is
/// held.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// A call-back that was not followed by a return is made again: the reply that brought the delegation may
/// have been on its way still, or the back channel broken.
const CALL_AGAIN: Duration = Duration::from_secs(1);

/// For so long nobody gets a delegation of a file after one was called back: whoever writes a file writes it
/// again.
const CONTENDED: Duration = Duration::from_secs(30);

/// Files remembered as contended: a megabyte. Forgetting one costs a call-back.
const CONTENDED_MAX: usize = 16_384;

/// What this server remembers of delegations.
#[derive(Default)]
pub(crate) struct Delegations {
    asked: Mutex<BTreeMap<StateId, Asked>>,
    contended: Mutex<BTreeMap<InodeId, Duration>>,
    revoked: Mutex<BTreeSet<ClientId>>,
}

/// When a delegation was called back, on the monotonic clock.
#[derive(Debug, Clone, Copy)]
struct Asked {
    first: Duration,
    last: Duration,
}

/// What to do about a delegation that is in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Call,
    Wait,
    Revoke,
}

impl Delegations {
    fn next(&self, delegation: StateId, now: Duration, lease: Duration) -> Next {
        let mut asked = self.asked.lock();
        // What nobody waits for any more is forgotten, so that the map stays small.
        asked.retain(|_, asked| now.saturating_sub(asked.last) < lease * 4);
        match asked.get_mut(&delegation) {
            None => {
                asked.insert(delegation, Asked { first: now, last: now });
                Next::Call
            }
            Some(asked) if now.saturating_sub(asked.first) > lease => Next::Revoke,
            Some(asked) if now.saturating_sub(asked.last) >= CALL_AGAIN => {
                asked.last = now;
                Next::Call
            }
            Some(_) => Next::Wait,
        }
    }

    /// It is back, or was taken away.
    pub(crate) fn settled(&self, delegation: StateId) {
        self.asked.lock().remove(&delegation);
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

    /// Whether a delegation of this file was called back a moment ago.
    pub(crate) fn is_contended(&self, inode: InodeId, now: Duration) -> bool {
        let contended = self.contended.lock();
        contended.get(&inode).is_some_and(|last| now.saturating_sub(*last) < CONTENDED)
    }

    /// The client has lost delegations that it has not acknowledged yet.
    pub(crate) fn note_revoked(&self, client: ClientId) {
        self.revoked.lock().insert(client);
    }

    /// These have revoked delegations, and no others.
    pub(crate) fn set_revoked(&self, clients: impl IntoIterator<Item = ClientId>) {
        *self.revoked.lock() = clients.into_iter().collect();
    }

    /// It has acknowledged all, or is gone.
    pub(crate) fn forget_revoked(&self, client: ClientId) {
        self.revoked.lock().remove(&client);
    }

    /// Whether SEQUENCE must tell the client so.
    pub(crate) fn has_revoked(&self, client: ClientId) -> bool {
        self.revoked.lock().contains(&client)
    }
}

/// Whether a delegation may be in the way of a command: it is then kept, to be proposed again.
pub(crate) fn may_conflict(command: &Command) -> bool {
    match command {
        Command::Open(open) => {
            open.access.contains(namespace::Share::WRITE)
                || open.deny != namespace::Share::NONE
                || matches!(open.target, namespace::OpenTarget::Create { truncate: true, .. })
        }
        Command::Link { .. }
        | Command::Remove { .. }
        | Command::Rename { .. }
        | Command::SetAttributes { .. }
        | Command::Wrote { .. }
        | Command::WriteInline { .. }
        | Command::SetXattr { .. }
        | Command::RemoveXattr { .. } => true,
        _ => false,
    }
}

impl ClientState {
    /// Has every client but `except` return its delegation of `inode`.
    ///
    /// # Errors
    /// `Delay` while one is still out. Who does not return it within a lease loses it.
    pub(crate) async fn recall_delegations(
        &self,
        inode: InodeId,
        except: Option<ClientId>,
    ) -> Result<(), FileError> {
        self.delegations.contend(inode, self.machine.clock.monotonic());
        let deadline = tokio::time::Instant::now() + WAIT_MAX;
        loop {
            let returned = self.state_returned.notified();
            let holders = read::delegations(&*self.machine.view()?, inode)?;
            let mut others = holders.into_iter().filter(|(client, _)| Some(*client) != except).peekable();
            if others.peek().is_none() {
                return Ok(());
            }
            for (client, delegation) in others {
                self.ask_delegation_back(inode, client, delegation).await?;
            }
            if tokio::time::timeout_at(deadline, returned).await.is_err() {
                return Err(FileError::Delay);
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
                return Ok(()); // it has lapsed, and is expired in a moment
            }
            self.machine.inode(&*view, inode)?
        };
        match self.delegations.next(delegation.id, self.machine.clock.monotonic(), self.cluster.lease()) {
            Next::Wait => {}
            Next::Call => {
                let held = read::state(&*self.machine.view()?, delegation.id)?;
                let Some(State::Delegation(held)) = held else { return Ok(()) }; // returned since
                let fh = self.machine.handle(Via::Export(held.export), inode, file.generation).into();
                let args = RecallArgs { stateid: wire_stateid(delegation), truncate: false, fh };
                // What counts is the return, not what the client says to the call.
                tokio::spawn(self.call_back(client, CbArgOp::Recall(args)));
            }
            Next::Revoke => {
                tracing::warn!(
                    client = client.0,
                    "a recalled delegation was not returned for a lease: revoked"
                );
                // First the word that it is gone, then the deed.
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

    /// FREE_STATEID may have been the client's last revoked delegation.
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
        let next = |at| delegations.next(StateId(7), s(at), s(30));
        assert_eq!(
            (next(100), next(100), next(101), next(130)),
            (Next::Call, Next::Wait, Next::Call, Next::Call)
        );
        assert_eq!(next(131), Next::Revoke);
        delegations.settled(StateId(7));
        assert_eq!(next(132), Next::Call);
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
