//! Conflicts of a request with states of other clients.
//!
//! An active client keeps its states. A client whose lease has run out keeps its states only by courtesy: it
//! ends, and the request goes on. A client that has ended already does not conflict, although records of its
//! states may still exist (`leftovers.rs`).
//!
//! The work is bounded: a request checks [`LOOKED_AT_MAX`] records, and ends [`LAPSED_AT_ONCE_MAX`] clients.

use std::ops::ControlFlow;

use store::StoreError;

use super::client;
use crate::files::epoch;
use crate::plan::{Plan, Stop};
use crate::{ClientId, ClientRecord, Error, InodeId, Reply, keys, read};

/// Maximum of records of other states that a request checks for conflicts. The checks take 2 to 9 ms.
pub(super) const LOOKED_AT_MAX: usize = 1024;

/// Maximum of lapsed clients that one request ends. The end of a client takes its record, its owner's, and at
/// least three records for each of its sessions.
pub(super) const LAPSED_AT_ONCE_MAX: usize = 8;

/// Lapsed clients that conflict with a request.
#[derive(Debug, Clone, Default)]
pub(super) struct InTheWay {
    lapsed: Vec<ClientRecord>,
    /// True if there are more records than a request checks.
    unseen: bool,
}

impl InTheWay {
    /// Adds a client with a conflicting state. Returns false if it is active, or is the requesting client.
    pub fn note(&mut self, plan: &Plan<'_>, holder: ClientId, asks: ClientId) -> Result<bool, StoreError> {
        if self.lapsed.iter().any(|known| known.id == holder) {
            return Ok(true);
        }
        match read::client(plan.view(), holder)? {
            Some(client) if client.lapsed.is_some() && holder != asks => self.lapsed.push(client),
            Some(_) => return Ok(false),
            None => {} // its state is a leftover
        }
        Ok(true)
    }

    /// Notes that there are more records than a request checks.
    pub fn note_unseen(&mut self) {
        self.unseen = true;
    }

    /// True if no client is in the way.
    pub fn is_empty(&self) -> bool {
        self.lapsed.is_empty() && !self.unseen
    }

    /// True if the request has to be repeated: see [`InTheWay::end_some`].
    pub fn is_crowd(&self) -> bool {
        self.unseen || self.lapsed.len() > LAPSED_AT_ONCE_MAX
    }

    /// True if the end of these clients leaves a fence of the file: they may still write to it.
    pub fn leave_a_fence(&self, plan: &Plan<'_>, inode: InodeId) -> Result<bool, Stop> {
        if self.lapsed.is_empty() {
            return Ok(false);
        }
        let mut after = plan.clone();
        self.clone().end(&mut after)?;
        epoch::is_unfenced(&after, inode)
    }

    /// Ends the clients, at most [`LAPSED_AT_ONCE_MAX`] of them.
    pub fn end(mut self, plan: &mut Plan<'_>) -> Result<(), Stop> {
        self.lapsed.sort_unstable_by_key(|client| client.id);
        self.lapsed.iter().take(LAPSED_AT_ONCE_MAX).try_for_each(|client| client::end(plan, client))
    }

    /// Ends some of the clients, and refuses the request with `Delay`. This is the only refusal with a
    /// change: the repeated request finds fewer conflicts. If there is no client to end, the checked records
    /// are leftovers, which are removed soon; without leftovers `refusal` is the answer.
    pub fn end_some(self, plan: &mut Plan<'_>, refusal: Error) -> Result<Reply, Stop> {
        if self.lapsed.is_empty() && !read::any_key(plan.view(), &[keys::LEFTOVERS])? {
            return Err(refusal.into());
        }
        self.end(plan)?;
        Ok(Reply::Refused(Error::Delay))
    }
}

/// Returns the first keys under `prefix`, at most [`LOOKED_AT_MAX`]; the flag is true if there are more.
pub(super) fn first_keys(plan: &Plan<'_>, prefix: &[u8]) -> Result<(Vec<keys::Key>, bool), StoreError> {
    let (mut found, mut more) = (Vec::new(), false);
    read::scan_keys(plan.view(), prefix, |key| {
        more = found.len() == LOOKED_AT_MAX;
        if more {
            return ControlFlow::Break(());
        }
        found.push(key.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok((found, more))
}

/// True if a client other than `except` that has not ended has a key under `prefix`, a prefix of a file's
/// keys with a client at the end; none: unknown, since there are too many keys.
pub(super) fn held_by_another(
    plan: &Plan<'_>,
    prefix: &[u8],
    except: Option<ClientId>,
) -> Result<Option<bool>, StoreError> {
    let (found, more) = first_keys(plan, prefix)?;
    for key in found {
        let client = ClientId(keys::number(&key, prefix.len()));
        if Some(client) != except && read::client(plan.view(), client)?.is_some() {
            return Ok(Some(true));
        }
    }
    Ok(if more { None } else { Some(false) })
}
