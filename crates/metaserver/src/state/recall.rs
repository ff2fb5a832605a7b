//! Layout recall (RFC 8881, section 12.5.5) before a change during which holders of layouts must not write,
//! and revocation of layouts that are not returned. A revoked layout to write is fenced: see
//! [`namespace::DeferredKind::Fence`].

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use namespace::{ClientId, Command, InodeId, IoMode, LayoutState, ReturnScope, State, StateId, read};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use wire::handle::FileHandle;
use wire::nfs4::Status;
use wire::nfs4::callback::{CbArgOp, LayoutRecall};

use crate::compound::wire_stateid;
use crate::errors::FileError;
use crate::exports::admission::Via;
use crate::state::ClientState;

/// Time that an operation waits for recalled layouts. After it, the answer is DELAY, so that the operation
/// does not hold a session slot.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// Holders of layouts that a recall is sent to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Holders {
    All,
    AllBut(ClientId),
    /// Holders of layouts to write.
    Writers,
}

impl Holders {
    fn have(self, client: ClientId, mode: IoMode) -> bool {
        match self {
            Holders::All => true,
            Holders::AllBut(other) => client != other,
            Holders::Writers => mode == IoMode::ReadWrite,
        }
    }
}

/// Files with recalls under way at a time, in a recall for all files.
const FILES_AT_ONCE: usize = 32;

/// Time since the last grant after which an answer NOMATCHING_LAYOUT to a recall is believed. Before that the
/// client may not have read the reply of its LAYOUTGET yet, and the recall is sent again.
const GRANT_IN_FLIGHT_MAX: Duration = Duration::from_secs(1);
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// Clients with a recent layout grant by any metaserver: within the last one to two
/// [`GRANT_IN_FLIGHT_MAX`]. Two sets are used in turn.
#[derive(Default)]
pub(crate) struct Granted(Mutex<Halves>);

#[derive(Default)]
struct Halves {
    since: Duration,
    new: HashSet<(InodeId, ClientId)>,
    old: HashSet<(InodeId, ClientId)>,
}

impl Granted {
    /// Notes a grant. Must be called before the reply can be on its way.
    pub(crate) fn note(&self, inode: InodeId, client: ClientId, now: Duration) {
        let mut halves = self.0.lock();
        halves.turn(now);
        halves.new.insert((inode, client));
    }

    fn is_recent(&self, inode: InodeId, client: ClientId, now: Duration) -> bool {
        let mut halves = self.0.lock();
        halves.turn(now);
        halves.new.contains(&(inode, client)) || halves.old.contains(&(inode, client))
    }
}

impl Halves {
    fn turn(&mut self, now: Duration) {
        let age = now.saturating_sub(self.since);
        if age < GRANT_IN_FLIGHT_MAX {
            return;
        }
        let new = std::mem::take(&mut self.new);
        self.old = if age < GRANT_IN_FLIGHT_MAX * 2 { new } else { HashSet::new() };
        self.since = now;
    }
}

/// Times of the first recall of each layout that is not returned. A client that answers every recall but
/// never returns its layout would block the others for ever: after a lease it loses the layout.
#[derive(Default)]
pub(crate) struct Recalls(Mutex<BTreeMap<StateId, Duration>>);

impl Recalls {
    /// Notes a recall. Returns true if the first recall of the layout was longer ago than `lease`.
    fn is_late(&self, layout: StateId, now: Duration, lease: Duration) -> bool {
        let mut asked = self.0.lock();
        // Recalls that are not repeated any more are dropped, so that the map stays small.
        asked.retain(|_, first| now.saturating_sub(*first) < lease * 4);
        now.saturating_sub(*asked.entry(layout).or_insert(now)) > lease
    }
}

/// Maximum of tries of a truncation. The state machine refuses a truncation while a layout is granted, and a
/// layout can be granted between the recall and the truncation.
pub(crate) const TRUNCATION_TRIES_MAX: u8 = 3;

impl ClientState {
    /// Recalls the layouts of `inode` from these holders.
    ///
    /// # Errors
    /// `Delay` while a client has not returned its layout. A client that answers NOMATCHING_LAYOUT loses the
    /// layout at once. A client that does not return it loses it after a lease.
    pub(crate) async fn recall_layouts(
        &self,
        inode: InodeId,
        generation: u32,
        whose: Holders,
    ) -> Result<(), FileError> {
        let mut to_ask = self.holders(inode, whose)?;
        if to_ask.is_empty() {
            return Ok(());
        }
        let returned = self.state_returned.notified();
        tokio::pin!(returned);
        let deadline = tokio::time::Instant::now() + WAIT_MAX;
        loop {
            let again = self.ask_back(inode, generation, to_ask, deadline).await?;
            let soon = tokio::time::Instant::now() + ASK_AGAIN;
            let until = if again.is_empty() { deadline } else { deadline.min(soon) };
            while !self.holders(inode, whose)?.is_empty() {
                if tokio::time::timeout_at(until, &mut returned).await.is_err() {
                    break;
                }
                returned.set(self.state_returned.notified());
            }
            let left = self.holders(inode, whose)?;
            if left.is_empty() {
                return Ok(());
            }
            if tokio::time::Instant::now() >= deadline {
                return Err(FileError::Delay);
            }
            to_ask = again.into_iter().filter(|client| left.contains(client)).collect();
        }
    }

    /// Recalls the layouts of these clients. A client that answers NOMATCHING_LAYOUT loses its layout.
    /// Returns the clients to ask again: clients that may not know of their layout yet, and clients that
    /// asked for time.
    async fn ask_back(
        &self,
        inode: InodeId,
        generation: u32,
        holders: Vec<ClientId>,
        deadline: tokio::time::Instant,
    ) -> Result<Vec<ClientId>, FileError> {
        let mut asked = JoinSet::new();
        for client in holders {
            if self.yields_to_conflict(&*self.machine.view()?, [client])? {
                self.expire(client).await?;
                continue;
            }
            let reply = self.propose(None, Command::LayoutRecall { client, inode }).await?;
            let namespace::Reply::State { stateid: Some(stateid) } = reply else { continue };
            if self.recalls.is_late(stateid.id, self.machine.clock.monotonic(), self.cluster.lease()) {
                tracing::warn!(client = client.0, "a recalled layout was not returned for a lease: revoked");
                self.revoke(client, stateid.id).await?;
                continue;
            }
            let Some(State::Layout(layout)) = read::state(&*self.machine.view()?, stateid.id)? else {
                continue; // returned meanwhile
            };
            let handle = self.machine.handle(Via::Export(layout.export), inode, generation);
            let op = CbArgOp::LayoutRecall(LayoutRecall::whole_file(handle.into(), wire_stateid(stateid)));
            let call = self.call_back(client, op);
            asked.spawn(async move { (client, stateid.id, call.await) });
        }
        let mut ask_again = Vec::new();
        loop {
            let answer = match tokio::time::timeout_at(deadline, asked.join_next()).await {
                Ok(Some(answer)) => answer,
                Ok(None) => return Ok(ask_again),
                Err(_) => {
                    // Detached, not dropped: a cancelled call would lose its slot of the back channel.
                    asked.detach_all();
                    return Err(FileError::Delay);
                }
            };
            let (client, layout, outcome) = answer.map_err(|_| FileError::Fault)?;
            match outcome {
                Ok(Status::Ok) => {}
                Ok(Status::Delay) => ask_again.push(client),
                Ok(_) if self.granted.is_recent(inode, client, self.machine.clock.monotonic()) => {
                    ask_again.push(client)
                }
                Ok(other) => {
                    tracing::debug!(client = client.0, status = ?other, "holds no such layout");
                    self.forget_layout(client, layout).await?;
                }
                // The client's next SEQUENCE reports that its back channel is down. Either the client binds a
                // connection and gets the recall again, or its lease expires with its layouts.
                Err(error) => tracing::info!(client = client.0, %error, "layout recall did not arrive"),
            }
        }
    }

    /// Recalls the write delegations and the layouts to write of all clients and files. Returns true if none of those that
    /// there were is left; their holders get new ones.
    pub(crate) async fn recall_all_writing(self: Arc<Self>) -> bool {
        let writers = self.recall_all_writers().await;
        if let Err(error) = &writers {
            tracing::info!(
                ?error,
                "write delegations are still out after the exports changed; they are called back again"
            );
        }
        let to_write = |layout: &LayoutState| Ok(layout.mode == IoMode::ReadWrite);
        let Some(files) = self.recall_all(to_write).await else {
            tracing::warn!(
                "layouts to write are still out after the exports changed; they are called back again"
            );
            return false;
        };
        tracing::info!(files, "layouts to write were asked back, for the new exports");
        writers.is_ok()
    }

    /// Recalls the layouts of all files that have a layout for which `wanted` is true. Returns the number of
    /// files.
    pub(crate) async fn recall_all(
        self: Arc<Self>,
        wanted: impl Fn(&LayoutState) -> Result<bool, FileError> + Send + 'static,
    ) -> Option<usize> {
        let server = Arc::clone(&self);
        // Scans all layout states.
        let found = self.machine.replica.run_blocking(move || server.layouts(wanted)).await;
        let Ok(Ok(mut out)) = found else { return None };
        let files = out.len();
        let deadline = tokio::time::Instant::now() + self.cluster.lease() * 3;
        while !out.is_empty() && tokio::time::Instant::now() < deadline {
            for some in out.chunks(FILES_AT_ONCE) {
                let mut asked = JoinSet::new();
                for (inode, _) in some {
                    let (server, inode) = (Arc::clone(&self), *inode);
                    asked.spawn(async move {
                        let generation = server.machine.inode(&*server.machine.view()?, inode)?.generation;
                        server.recall_layouts(inode, generation, Holders::All).await
                    });
                }
                while asked.join_next().await.is_some() {}
            }
            let view = self.machine.view().ok()?;
            out.retain(|(_, state)| matches!(read::state(&*view, *state), Ok(Some(_))));
            if !out.is_empty() {
                tokio::time::sleep(ASK_AGAIN).await; // each may have been refused at once, such as without a leader
            }
        }
        out.is_empty().then_some(files)
    }

    fn layouts(
        &self,
        wanted: impl Fn(&LayoutState) -> Result<bool, FileError>,
    ) -> Result<Vec<(InodeId, StateId)>, FileError> {
        let view = self.machine.view()?;
        let mut out = Vec::new();
        for client in read::clients(&*view)? {
            for state in read::states(&*view, client)? {
                if let Some(State::Layout(layout)) = read::state(&*view, state)?
                    && wanted(&layout)?
                {
                    out.push((layout.inode, state));
                }
            }
        }
        Ok(out)
    }

    /// Returns the file of a CB_LAYOUTRECALL.
    pub(crate) fn recalled(&self, op: &CbArgOp) -> Option<InodeId> {
        let CbArgOp::LayoutRecall(args) = op else { return None };
        let LayoutRecall::File(file) = &args.recall else { return None };
        FileHandle::open(&file.fh.0, &self.machine.key).map(|file| InodeId(file.inode))
    }

    /// Status to pass on for a recall by another metaserver to a client that is connected here.
    /// NOMATCHING_LAYOUT becomes `Delay` while a reply of this metaserver with the layout may be on its way
    /// to the client.
    pub(crate) fn or_later(&self, client: ClientId, recalled: Option<InodeId>, status: Status) -> Status {
        let is_recent = |inode| self.granted.is_recent(inode, client, self.machine.clock.monotonic());
        if status != Status::Ok && recalled.is_some_and(is_recent) { Status::Delay } else { status }
    }

    fn holders(&self, inode: InodeId, whose: Holders) -> Result<Vec<ClientId>, FileError> {
        let view = self.machine.view()?;
        let layouts = read::layouts(&*view, inode)?;
        let of_these = layouts.into_iter().filter(|(client, _, mode)| whose.have(*client, *mode));
        Ok(of_these.map(|(client, ..)| client).collect())
    }

    /// Revokes a layout that its client did not return: its later writes are fenced.
    async fn revoke(&self, client: ClientId, layout: StateId) -> Result<(), FileError> {
        self.end_layout(client, ReturnScope::Revoke { layout }).await
    }

    /// Ends a layout that its client does not know.
    pub(crate) async fn forget_layout(&self, client: ClientId, layout: StateId) -> Result<(), FileError> {
        self.end_layout(client, ReturnScope::Unknown { layout }).await
    }

    async fn end_layout(&self, client: ClientId, scope: ReturnScope) -> Result<(), FileError> {
        self.propose(None, Command::LayoutReturn { client, scope }).await?;
        self.note_returned();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_recent_for_one_to_two_seconds() {
        let (granted, ms) = (Granted::default(), Duration::from_millis);
        let recent = |at| granted.is_recent(InodeId(3), ClientId(1), ms(at));
        assert!(!recent(5000));
        granted.note(InodeId(3), ClientId(1), ms(5100));
        assert!(recent(5100) && recent(6090));
        assert!(!granted.is_recent(InodeId(3), ClientId(2), ms(6090)), "another client");
        assert!(!recent(8000));
        granted.note(InodeId(3), ClientId(1), ms(9000));
        assert!(!recent(20_000));
    }

    #[test]
    fn a_layout_is_late_a_lease_after_it_was_first_asked_back() {
        let (recalls, s) = (Recalls::default(), Duration::from_secs);
        let late = |layout, at| recalls.is_late(StateId(layout), s(at), s(30));
        assert!(!late(7, 100) && !late(7, 120) && !late(7, 130));
        assert!(late(7, 131));
        assert!(!late(8, 140), "another layout of the same file and client");
    }
}
