//! Brief opens become opens of the state machine.

use std::sync::Arc;
use std::time::Duration;

use namespace::{Command, Open, OpenState, OpenTarget, StateId};
use wire::peer;
use wire::peer::clients::write_opens;

use super::{BriefOpen, BriefOpens, Table, UNKNOWN_MAX, WRITTEN_AFTER};
use crate::errors::FileError;
use crate::state::ClientState;

/// Time of a call to the leader that may have a brief open; without an answer the client opens again.
const ASK_TIME_MAX: Duration = Duration::from_secs(1);
/// Maximum of opens that one operation has the leader write: TEST_STATEID names any number.
const WRITTEN_AT_ONCE_MAX: usize = 64;
/// Pause between looks at the ages of the opens that there are.
const LOOK_EVERY: Duration = Duration::from_millis(250);

impl BriefOpen {
    fn command(&self) -> Command {
        let OpenState { stateid, client, inode, owner, access, deny, .. } = self.open.clone();
        let target = OpenTarget::Inode(inode);
        let open = Open { client, owner, target, access, deny, delegate: false, export: self.export };
        Command::KeepOpen { open, stateid }
    }
}

impl BriefOpens {
    /// Opens to be written because of their age, or since this member leads no more.
    pub(super) fn due(&self, now: Duration, leads: bool) -> Vec<StateId> {
        let mut table = self.table.lock();
        let age = |brief: &BriefOpen| now.saturating_sub(brief.since);
        let is_unknown = |brief: &BriefOpen| {
            !brief.is_being_written && age(brief) >= UNKNOWN_MAX && !brief.is_known_to_client()
        };
        let unknown: Vec<StateId> =
            table.opens.iter().filter(|(_, brief)| is_unknown(brief)).map(|(id, _)| *id).collect();
        unknown.into_iter().for_each(|id| table.remove(id));
        let is_due = |brief: &BriefOpen| {
            !brief.is_being_written && brief.is_known_to_client() && (!leads || age(brief) >= WRITTEN_AFTER)
        };
        table.opens.iter().filter(|(_, brief)| is_due(brief)).map(|(id, _)| *id).collect()
    }

    fn is_empty(&self) -> bool {
        self.table.lock().opens.is_empty()
    }
}

impl Table {
    /// Marks opens as being written. Returns the commands for those that were not.
    pub(super) fn begin_writing(&mut self, ids: &[StateId]) -> Vec<(StateId, Command)> {
        let mut commands = Vec::new();
        for id in ids {
            if let Some(brief) = self.opens.get_mut(id).filter(|brief| !brief.is_being_written) {
                brief.is_being_written = true;
                commands.push((*id, brief.command()));
            }
        }
        commands
    }
}

impl ClientState {
    /// Writes brief opens to the state machine. Returns when none of these is in memory any more: what could not be written
    /// has ended, and its client opens again.
    pub(crate) async fn write_opens(self: &Arc<Self>, ids: Vec<StateId>) {
        if ids.is_empty() {
            return;
        }
        let commands = self.brief_opens.table.lock().begin_writing(&ids);
        let mut writes = Vec::with_capacity(commands.len());
        for (id, command) in commands {
            // In a task of its own: the caller may go away.
            let state = Arc::clone(self);
            writes.push(tokio::spawn(async move {
                if let Err(error) = state.propose(None, command).await {
                    tracing::debug!(?error, "an open for reading is not kept: its client opens again");
                }
                // The state machine has it, and so has a view that is taken after this.
                state.brief_opens.table.lock().remove(id);
                state.brief_opens.written.notify_waiters();
            }));
        }
        for write in writes {
            let _ = write.await;
        }
        // Others are being written by other callers.
        loop {
            let written = self.brief_opens.written.notified();
            let some_are_left = {
                let table = self.brief_opens.table.lock();
                ids.iter().any(|id| table.opens.contains_key(id))
            };
            if !some_are_left {
                return;
            }
            written.await;
        }
    }

    /// Writes all brief opens, and has none from now on.
    pub(crate) async fn end_brief_opens(self: &Arc<Self>) {
        self.write_opens(self.brief_opens.end()).await;
    }

    /// Has the leader write brief opens that are not here, [`WRITTEN_AT_ONCE_MAX`] at most. Returns once a view shows those
    /// that there are.
    pub(crate) async fn write_elsewhere(&self, mut opens: Vec<StateId>) -> Result<(), FileError> {
        opens.truncate(WRITTEN_AT_ONCE_MAX);
        if opens.is_empty() {
            return Ok(()); // the usual case
        }
        let states = opens.into_iter().map(|open| open.0).collect();
        let call = peer::Call::WriteOpens(write_opens::Args { states });
        if let Err(why) = self.cluster.call_leader(call, ASK_TIME_MAX).await {
            tracing::debug!(%why, "a leader that may have an open in memory does not answer");
        }
        self.machine.read_barrier().await
    }

    /// Writes brief opens that last, and those that clients have when this member leads no more. Never returns.
    pub(crate) async fn keep_brief_opens(self: Arc<Self>) {
        loop {
            self.brief_opens.some.notified().await;
            while !self.brief_opens.is_empty() {
                tokio::time::sleep(LOOK_EVERY).await;
                let due = self.brief_opens.due(self.machine.clock.monotonic(), self.machine.replica.orders());
                self.write_opens(due).await;
            }
        }
    }
}
