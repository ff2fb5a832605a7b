//! Judgement of the clients whose states are in the way of a request.
//!
//! A client that is alive keeps what it has. A client whose lease has run out keeps its states by courtesy
//! only: it ends, and the request goes on. A client that has ended already is not in the way, although
//! records of its states may still be there (`leftovers.rs`).
//!
//! The work is bounded: a request looks at [`LOOKED_AT_MAX`] records, and ends [`LAPSED_AT_ONCE_MAX`]
//! clients.

use std::ops::ControlFlow;

use store::StoreError;

use super::client;
use crate::plan::{Plan, Stop};
use crate::{ClientId, ClientRecord, Error, Reply, keys, read};

/// Records of other states that a request looks at to find what is in its way. Judging them takes 2
/// to 9 ms.
pub(super) const LOOKED_AT_MAX: usize = 1024;

/// Lapsed clients that one request ends. The end of a client takes its record, its owner's, and three records
/// for each of its sessions at least.
pub(super) const LAPSED_AT_ONCE_MAX: usize = 8;

/// Clients in the way of a request whose leases have run out.
#[derive(Debug, Default)]
pub(super) struct InTheWay {
    lapsed: Vec<ClientRecord>,
    /// There are more records than a request looks at.
    unseen: bool,
}

impl InTheWay {
    /// Notes a client with a conflicting state. False: it is alive, or asks itself.
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

    /// Notes that there are more records than a request looks at.
    pub fn note_unseen(&mut self) {
        self.unseen = true;
    }

    /// Whether the request has to come again: see [`InTheWay::end_some`].
    pub fn is_crowd(&self) -> bool {
        self.unseen || self.lapsed.len() > LAPSED_AT_ONCE_MAX
    }

    /// Ends the clients, at most [`LAPSED_AT_ONCE_MAX`] of them.
    pub fn end(mut self, plan: &mut Plan<'_>) -> Result<(), Stop> {
        self.lapsed.sort_unstable_by_key(|client| client.id);
        self.lapsed.iter().take(LAPSED_AT_ONCE_MAX).try_for_each(|client| client::end(plan, client))
    }

    /// Ends some of the clients, and has the request come again. This is the one refusal that changes
    /// something: the request that comes again finds fewer in its way. Where there is no client to end, the
    /// records that were looked at are leftovers, which go soon, or `refusal` is the answer.
    pub fn end_some(self, plan: &mut Plan<'_>, refusal: Error) -> Result<Reply, Stop> {
        if self.lapsed.is_empty() && !read::any_key(plan.view(), &[keys::LEFTOVERS])? {
            return Err(refusal.into());
        }
        self.end(plan)?;
        Ok(Reply::Refused(Error::Delay))
    }
}

/// The first keys under `prefix`, as many as a request looks at, and whether there are more.
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

/// Whether a client other than `except` that has not ended has a key under `prefix`, which is one of a file
/// and ends with clients; none: there are too many keys to tell.
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
