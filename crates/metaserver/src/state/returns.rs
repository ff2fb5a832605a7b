//! Delegations that clients have returned, and that the state machine still has: in memory, until one command ends many.
//!
//! ```text
//! DELEGRETURN ─▶ answered ─▶ in memory ── 50 ms, 128 of them, or a conflict ──▶ Command::DelegationsReturn
//! ```
//!
//! Linux returns a delegation before it removes a file, and when it forgets one, and waits for the answer. Nothing has to be
//! on disk for it: whatever the delegation keeps from others asks for it back, and then it is ended at once. If this
//! metaserver dies before, the state machine has delegations that their clients do not know. What conflicts with them has
//! them recalled, and they end when the client has answered for some seconds that it has none. A file is not removed
//! before the end of a delegation that was returned: nothing would have it recalled afterwards.
//!
//! A delegation with whose end a layout may end goes the usual way: opens in the memory of the leader would have to be
//! looked for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use namespace::{ClientId, Command, Error, InodeId, State, StateId, Stateid, read};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::errors::FileError;
use crate::state::ClientState;

/// Longest time of a returned delegation in memory, while there is a leader.
const HELD: Duration = Duration::from_millis(50);
/// Number of delegations that one command ends.
const AT_ONCE: usize = 128;
/// Maximum in memory: without a leader, further returns wait for one.
const MAX: usize = 1024;
/// Pause after a command that was not ordered.
const TRY_AGAIN: Duration = Duration::from_millis(500);
/// Attempts for one delegation. After that it is recalled like any other if it is in the way.
const TRIES_MAX: u8 = 20;
/// Longest wait for the end of a client's returned delegations.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// Returned delegations that the state machine still has.
#[derive(Default)]
pub(crate) struct Returns {
    waiting: Mutex<BTreeMap<StateId, Returned>>,
    /// Signals the first one.
    some: Notify,
    /// Signals that they are to be ended at once.
    now: Notify,
    /// Signals that some have been ended.
    ended: Notify,
    /// True before a stop: further returns are ordered before they are answered.
    closing: AtomicBool,
}

/// A returned delegation.
#[derive(Debug, Clone, Copy)]
struct Returned {
    client: ClientId,
    stateid: Stateid,
    inode: InodeId,
    tries: u8,
}

impl Returns {
    /// True if this delegation was returned here.
    pub(crate) fn has(&self, delegation: StateId) -> bool {
        self.waiting.lock().contains_key(&delegation)
    }

    /// Has the returned delegations ended at once.
    pub(crate) fn hurry(&self) {
        self.now.notify_one();
    }

    /// Takes a returned delegation; false if there are too many, or this metaserver stops.
    fn add(&self, returned: Returned) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.len() >= MAX || self.closing.load(Ordering::Acquire) {
            return false;
        }
        waiting.insert(returned.stateid.id, returned);
        match waiting.len() {
            1 => self.some.notify_one(),
            AT_ONCE => self.now.notify_one(),
            _ => {}
        }
        true
    }

    fn next(&self) -> Vec<Returned> {
        self.waiting.lock().values().take(AT_ONCE).copied().collect()
    }

    fn remove(&self, ended: StateId) {
        self.waiting.lock().remove(&ended);
        self.ended.notify_waiters();
    }

    /// Notes an attempt that failed.
    fn failed(&self, delegation: StateId) {
        let mut waiting = self.waiting.lock();
        let Some(returned) = waiting.get_mut(&delegation) else { return };
        returned.tries += 1;
        if returned.tries >= TRIES_MAX {
            waiting.remove(&delegation);
            drop(waiting);
            self.ended.notify_waiters();
        }
    }

    /// True if a delegation of `file` was returned here.
    pub(crate) fn has_file(&self, file: InodeId) -> bool {
        self.waiting.lock().values().any(|one| one.inode == file)
    }

    /// True if none was returned here that the state machine has.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.lock().is_empty()
    }

    /// True if `client` has returned a delegation of `file`, or of any file.
    fn has_of(&self, client: ClientId, file: Option<InodeId>) -> bool {
        let is_of = |one: &Returned| one.client == client && file.is_none_or(|file| one.inode == file);
        self.waiting.lock().values().any(is_of)
    }
}

impl ClientState {
    /// Takes a returned delegation into memory. False: its end is to be ordered first, as it may be refused, others wait for
    /// it, or a layout ends with it.
    pub(crate) fn take_return(&self, client: ClientId, returned: Stateid) -> Result<bool, FileError> {
        let view = self.machine.view()?;
        let held = match read::state(&*view, returned.id)? {
            Some(State::Delegation(held)) if held.client == client && !held.is_revoked() => held,
            _ => return Ok(false),
        };
        let is_current = returned.sequence == 0 || returned.sequence == held.stateid.sequence;
        let is_awaited = self.delegations.is_asked(returned.id);
        let has_layout = read::layouts(&*view, held.inode)?.iter().any(|(holder, ..)| *holder == client);
        if !is_current || is_awaited || has_layout {
            return Ok(false);
        }
        Ok(self.returns.add(Returned { client, stateid: held.stateid, inode: held.inode, tries: 0 }))
    }

    /// Ends returned delegations, many at a time.
    pub(crate) async fn keep_returns(self: Arc<Self>) {
        loop {
            self.returns.some.notified().await;
            let _ = tokio::time::timeout(HELD, self.returns.now.notified()).await;
            self.end_returned().await;
        }
    }

    async fn end_returned(&self) {
        loop {
            let some = self.returns.next();
            if some.is_empty() {
                return;
            }
            if !self.end_these(&some).await {
                tokio::time::sleep(TRY_AGAIN).await;
            }
        }
    }

    /// Returns true if some have ended.
    async fn end_these(&self, some: &[Returned]) -> bool {
        let returned = some.iter().map(|one| (one.client, one.stateid)).collect();
        let command = Command::DelegationsReturn { returned };
        if let Err(error) = self.machine.propose_once(None, command).await {
            tracing::debug!(?error, "returned delegations are ended one by one");
        }
        let mut have_ended = false;
        for one in some {
            match self.end_if_left(one.client, one.stateid).await {
                Ok(()) => {
                    have_ended = true;
                    self.delegations.settled(one.stateid.id);
                    self.returns.remove(one.stateid.id);
                }
                Err(error) => {
                    tracing::debug!(?error, "a returned delegation does not end yet");
                    self.returns.failed(one.stateid.id);
                }
            }
        }
        self.note_returned();
        have_ended
    }

    /// Ends a delegation that the command for many has left, such as one with a layout that was granted since.
    async fn end_if_left(&self, client: ClientId, returned: Stateid) -> Result<(), FileError> {
        match read::state(&*self.machine.view()?, returned.id)? {
            Some(State::Delegation(held)) if held.client == client && !held.is_revoked() => {
                self.end_delegation(client, returned).await
            }
            _ => Ok(()),
        }
    }

    /// Ends one delegation, and what ends with it.
    pub(crate) async fn end_delegation(&self, client: ClientId, returned: Stateid) -> Result<(), FileError> {
        let command = Command::DelegationReturn { client, stateid: returned };
        match self.machine.propose_once(None, command).await {
            Err(FileError::State(Error::BadStateid | Error::DelegationRevoked)) | Ok(_) => Ok(()), // ended meanwhile
            Err(error) => Err(error),
        }
    }

    /// Waits until the state machine has none of the delegations of `file`, or of any file, that `client` has returned here.
    pub(crate) async fn returns_ended(&self, client: ClientId, file: Option<InodeId>) {
        self.until_ended(|returns| !returns.has_of(client, file)).await;
    }

    /// Waits until the state machine has no delegation of `file` that was returned here.
    pub(crate) async fn returns_of_file_ended(&self, file: InodeId) {
        self.until_ended(|returns| !returns.has_file(file)).await;
    }

    async fn until_ended(&self, is_so: impl Fn(&Returns) -> bool) {
        let ended = async {
            loop {
                let ended = self.returns.ended.notified();
                if is_so(&self.returns) {
                    return;
                }
                self.returns.hurry();
                ended.await;
            }
        };
        let _ = tokio::time::timeout(WAIT_MAX, ended).await;
    }

    /// Ends all that were returned here, for a stop.
    pub(crate) async fn end_returns(&self) {
        self.returns.closing.store(true, Ordering::Release);
        self.end_returned().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_are_bounded_and_taken_some_at_a_time() {
        let (returns, ash, elm) = (Returns::default(), ClientId(7), ClientId(8));
        let returned = |id| Returned {
            client: ash,
            stateid: Stateid { sequence: 1, id: StateId(id) },
            inode: InodeId(id),
            tries: 0,
        };
        let taken = (1..=MAX as u64 + 9).filter(|id| returns.add(returned(*id))).count();
        assert_eq!(taken, MAX);
        let some = returns.next();
        assert_eq!(some.len(), AT_ONCE);
        some.iter().for_each(|one| returns.remove(one.stateid.id));
        assert!(!returns.has(some[0].stateid.id) && returns.has(returns.next()[0].stateid.id));
        assert!(returns.has_of(ash, None) && !returns.has_of(elm, None));
        assert!(returns.has_of(ash, Some(InodeId(900))) && !returns.has_of(ash, Some(some[0].inode)));
        assert!(returns.add(returned(9999)) && returns.has_file(InodeId(9999)));
        (0..TRIES_MAX).for_each(|_| returns.failed(StateId(9999)));
        assert!(!returns.has_file(InodeId(9999)));
        returns.closing.store(true, Ordering::Release);
        assert!(!returns.add(returned(9999)));
    }
}
