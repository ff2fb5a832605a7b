//! Brief opens: opens for reading that the leader keeps in its memory only.
//!
//! A small file that is opened, read and closed has no use of a record in the replicated state: writing it and removing it
//! again costs two syncs of the log on each member. The metaserver that leads keeps such an open in its memory. A CLOSE ends
//! it there. It is written to the state machine, with the stateid that its client has, when it matters:
//!
//! ```text
//! OPEN ─▶ brief ──CLOSE──────────────────────────────────────────────────────▶ gone
//!           │ it lasts (WRITTEN_AFTER), another operation needs it (LOCK, LAYOUTGET, …),
//!           │ a command that it would be in the way of comes, or this member leads no more
//!           ▼
//!        being written ──▶ an open of the state machine
//! ```
//!
//! **No command may miss an open.** All commands of all members are ordered by the leader, and it looks at each before
//! ([`conflicts`]). One that may discard the file, or that asks for the opens of a file or client, waits until they are
//! written. While such a command is under way there is no new brief open: the OPEN may have seen the file from before.
//!
//! **Other metaservers** do not know them. One that gets such a stateid asks the leader, which writes the open
//! ([`ClientState::write_elsewhere`]). A client that takes turns with its metaservers gets no brief opens.
//!
//! **Exactly once.** Nothing of a brief open is in the slot. An OPEN whose answer was lost may be sent to another metaserver,
//! and be answered and closed there, while the leader still has the first one. So an open is written because of its age only
//! if its connection has not ended or the client has used the stateid, and is forgotten after [`UNKNOWN_MAX`] if not.
//!
//! **After a fail-over** brief opens are lost with their leader. The client gets BAD_STATEID, and opens again, as the protocol
//! has it; Linux does so by itself. If the file was removed since, it is gone: within the [`WRITTEN_AFTER`] that a brief open
//! lives, or within [`UNKNOWN_MAX`] if its connection ended and its client has not used it.
//!
//! Files that grew beyond their inode are opened with a record: a layout needs one. So is what a client opens again soon: it
//! gets a delegation, and then opens without a request.

mod conflicts;
mod writing;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Weak;
use std::time::Duration;

use namespace::{ClientId, InodeId, OpenState, StateId, Stateid};
use nfs::{Connection, Position};
use parking_lot::Mutex;
use tokio::sync::Notify;
use wire::nfs4::Status;

use crate::nfs4::check_sequence;

/// Age at which a brief open is written to the state machine.
const WRITTEN_AFTER: Duration = Duration::from_secs(1);
/// Age at which a brief open ends if nothing shows that its client got the answer to its OPEN.
const UNKNOWN_MAX: Duration = Duration::from_secs(60);
/// Maximum of brief opens: about 20 MB, with the longest owners.
const OPENS_MAX: usize = 16_384;
/// Maximum of one client.
const OF_CLIENT_MAX: u32 = 1024;
/// A file that the client opens again within this time is opened with a record, and a delegation.
const AGAIN: Duration = Duration::from_secs(30);
/// Half the maximum of files remembered for [`AGAIN`]; forgetting one costs its client a delegation.
const LATELY_MAX: usize = 8192;

/// Opens in the memory of this member.
#[derive(Default)]
pub(crate) struct BriefOpens {
    table: Mutex<Table>,
    /// Notified when opens were written.
    written: Notify,
    /// Notified when there are opens to look after.
    some: Notify,
}

#[derive(Default)]
struct Table {
    /// True if this member sees commands before they are ordered; else there are no brief opens.
    sees_commands: bool,
    opens: BTreeMap<StateId, BriefOpen>,
    of_file: BTreeSet<(InodeId, StateId)>,
    of_client: BTreeMap<ClientId, u32>,
    lately: Lately,
    /// OPENs with a record that are under way here, of a client and file.
    opening: BTreeMap<(ClientId, InodeId), u32>,
    /// Commands under way that brief opens are in the way of.
    conflicts: usize,
    /// Number of such commands so far.
    conflicts_begun: u64,
}

/// Connection of an OPEN.
pub(crate) trait Lasts: Send + Sync {
    /// True if it has not ended: what was answered over it arrives.
    fn lasts(&self) -> bool;
}

impl Lasts for Connection {
    fn lasts(&self) -> bool {
        self.is_open()
    }
}

/// An open in memory.
pub(crate) struct BriefOpen {
    /// The open, as the state machine would have it.
    pub open: OpenState,
    /// Exported directory in the client's file handle.
    pub export: InodeId,
    /// Time of the OPEN, on the monotonic clock.
    pub since: Duration,
    /// The OPEN's connection, and position in its session.
    pub came: (Weak<dyn Lasts>, Position),
    /// True if the client has used the stateid.
    pub is_used: bool,
    pub is_being_written: bool,
}

impl BriefOpen {
    /// True if the client has the answer to its OPEN. Otherwise that may have been lost, and the client may have another one, of
    /// another metaserver.
    fn is_known_to_client(&self) -> bool {
        self.is_used || self.came.0.upgrade().is_some_and(|connection| connection.lasts())
    }
}

/// Files that clients have opened lately, in two halves by their age.
#[derive(Default)]
struct Lately {
    since: Duration,
    newer: HashMap<(ClientId, InodeId), Duration>,
    older: HashMap<(ClientId, InodeId), Duration>,
}

impl Lately {
    fn note(&mut self, client: ClientId, inode: InodeId, now: Duration) {
        if self.newer.len() >= LATELY_MAX || now.saturating_sub(self.since) >= AGAIN {
            (self.older, self.since) = (std::mem::take(&mut self.newer), now);
        }
        self.newer.insert((client, inode), now);
    }

    fn has(&self, client: ClientId, inode: InodeId, now: Duration) -> bool {
        let at = self.newer.get(&(client, inode)).or_else(|| self.older.get(&(client, inode)));
        at.is_some_and(|at| now.saturating_sub(*at) < AGAIN)
    }
}

/// An OPEN with a record is under way here: meanwhile the client gets no brief open of the file, which would have another
/// stateid.
pub(crate) struct Opening<'a> {
    opens: &'a BriefOpens,
    of: (ClientId, InodeId),
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        let opening = &mut self.opens.table.lock().opening;
        if let Some(count) = opening.get_mut(&self.of) {
            *count -= 1;
            if *count == 0 {
                opening.remove(&self.of);
            }
        }
    }
}

/// Proof that no conflicting command was under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quiet(u64);

/// Another OPEN, or a CLOSE, of what may be a brief open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// It is, and has this stateid after the OPEN; done.
    Here(Stateid),
    /// It is being written: the caller waits for that.
    BeingWritten(StateId),
    /// There is none.
    Elsewhere,
}

impl BriefOpens {
    /// From now on each command is seen before it is ordered.
    pub fn begin(&self) {
        self.table.lock().sees_commands = true;
    }

    /// No more brief opens: the process is about to stop. Returns those that there are.
    pub fn end(&self) -> Vec<StateId> {
        let mut table = self.table.lock();
        table.sees_commands = false;
        table.opens.keys().copied().collect()
    }

    /// An OPEN with a record begins.
    pub fn opens_with_record(&self, client: ClientId, inode: InodeId) -> Opening<'_> {
        *self.table.lock().opening.entry((client, inode)).or_default() += 1;
        Opening { opens: self, of: (client, inode) }
    }

    /// To be called before the view is taken by which a brief open is decided. None: a conflicting command is under way.
    pub fn quiet(&self) -> Option<Quiet> {
        let table = self.table.lock();
        (table.sees_commands && table.conflicts == 0).then_some(Quiet(table.conflicts_begun))
    }

    /// Adds an open. False if a conflicting command has come since, or there are too many opens.
    pub fn add(&self, quiet: Quiet, brief: BriefOpen) -> bool {
        let mut table = self.table.lock();
        let (client, inode) = (brief.open.client, brief.open.inode);
        let of_client = table.of_client.get(&client).copied().unwrap_or_default();
        let is_full = of_client >= OF_CLIENT_MAX || table.opens.len() >= OPENS_MAX;
        let is_opening = table.opening.contains_key(&(client, inode));
        let is_late = !table.sees_commands || table.conflicts_begun != quiet.0;
        if is_late || is_full || is_opening {
            return false;
        }
        table.lately.note(client, inode, brief.since);
        table.of_file.insert((inode, brief.open.stateid.id));
        *table.of_client.entry(client).or_default() += 1;
        table.opens.insert(brief.open.stateid.id, brief);
        self.some.notify_one();
        true
    }

    /// True if the client has opened the file within [`AGAIN`].
    pub fn was_opened_lately(&self, client: ClientId, inode: InodeId, now: Duration) -> bool {
        self.table.lock().lately.has(client, inode, now)
    }

    /// Opens again what the same owner has open, unless it is the same OPEN, sent again.
    pub fn open_again(
        &self,
        client: ClientId,
        owner: &[u8],
        inode: InodeId,
        came: (Weak<dyn Lasts>, Position),
    ) -> Found {
        let mut table = self.table.lock();
        let Some(id) = table.of_owner(client, owner, inode) else { return Found::Elsewhere };
        match table.opens.get_mut(&id) {
            Some(brief) if brief.is_being_written => Found::BeingWritten(id),
            Some(brief) if brief.came.1 == came.1 => {
                brief.came = came;
                Found::Here(brief.open.stateid)
            }
            Some(brief) => {
                brief.came = came;
                let stateid = &mut brief.open.stateid;
                stateid.sequence = stateid.sequence.checked_add(1).unwrap_or(1);
                Found::Here(*stateid)
            }
            None => Found::Elsewhere,
        }
    }

    /// The brief open of an owner, if it has one of this file.
    pub fn of_owner(&self, client: ClientId, owner: &[u8], inode: InodeId) -> Option<StateId> {
        self.table.lock().of_owner(client, owner, inode)
    }

    /// True if the client has any brief open.
    pub fn has_some(&self, client: ClientId) -> bool {
        self.table.lock().of_client.contains_key(&client)
    }

    /// The open with this id.
    pub fn get(&self, id: StateId) -> Option<OpenState> {
        self.table.lock().opens.get(&id).map(|brief| brief.open.clone())
    }

    /// The client has used an open.
    pub fn note_use(&self, id: StateId) {
        if let Some(brief) = self.table.lock().opens.get_mut(&id) {
            brief.is_used = true;
        }
    }

    /// Closes an open.
    ///
    /// # Errors
    /// As CLOSE: it is of another client or file, or the stateid is not the last one.
    pub fn close(&self, client: ClientId, given: Stateid, inode: InodeId) -> Result<Found, Status> {
        let mut table = self.table.lock();
        let Some(brief) = table.opens.get(&given.id) else { return Ok(Found::Elsewhere) };
        let open = &brief.open;
        if open.client != client || open.inode != inode {
            return Err(Status::BadStateid);
        }
        if brief.is_being_written {
            return Ok(Found::BeingWritten(given.id));
        }
        check_sequence(given.sequence, open.stateid.sequence)?;
        let stateid = open.stateid;
        table.remove(given.id);
        Ok(Found::Here(stateid))
    }

    /// Forgets a client that has ended.
    pub fn forget_client(&self, client: ClientId) {
        let mut table = self.table.lock();
        if !table.of_client.contains_key(&client) {
            return;
        }
        let of_client = table.opens.iter().filter(|(_, brief)| brief.open.client == client);
        let ids: Vec<StateId> = of_client.map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| table.remove(id));
        drop(table);
        self.written.notify_waiters();
    }
}

impl Table {
    fn of_owner(&self, client: ClientId, owner: &[u8], inode: InodeId) -> Option<StateId> {
        let of_file = self.of_file.range((inode, StateId(0))..=(inode, StateId(u64::MAX)));
        let mut ids = of_file.map(|(_, id)| *id);
        ids.find(|id| {
            self.opens.get(id).is_some_and(|brief| brief.open.client == client && brief.open.owner == owner)
        })
    }

    fn remove(&mut self, id: StateId) {
        let Some(brief) = self.opens.remove(&id) else { return };
        self.of_file.remove(&(brief.open.inode, id));
        let client = brief.open.client;
        if let Some(count) = self.of_client.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                self.of_client.remove(&client);
            }
        }
    }
}

#[cfg(test)]
mod tests;
