//! Deferred object operations: truncate and remove. A command leaves a record (the intent), the work is done
//! here, and [`Command::DeferredDone`] takes the record away (the outcome). Whoever runs after a crash finds
//! the records and goes on.
//!
//! The same loop removes the leftovers of clients that ended (`namespace`), which hold files back that are to
//! be removed.
//!
//! A removal that is done twice does no harm. A truncation does: the second one may come after new writes,
//! and takes them. So only the metaserver that leads truncates, one truncation of a file at a time, and looks
//! at the record again before each:
//!
//! ```text
//! asked    SetAttributes ─▶ record ─▶ peer TRUNCATE ──┐                          ┌─▶ read_barrier ─▶ answer
//! leader                                             └▶ turn ─ look ─ truncation ─ DeferredDone
//! ```

pub(crate) mod backlog;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cluster::peers;
use namespace::{Command, DeferredKind, DeferredOp, TargetId, read};
use replica::Member;
use tokio::task::JoinSet;
use tokio::time::Instant;
use wire::data::{self, Procedure};
use wire::peer::files::truncate::{self, Outcome};
use wire::peer::{Call, Reply};

use crate::data::Data;
use crate::errors::FileError;

/// Records taken up at one time: bounds one REMOVE call to a data server.
const DEFERRED_MAX: usize = 256;
/// How long to wait after the metadata could not be read or changed, and between two tries at the least.
const RETRY: Duration = Duration::from_millis(500);
/// Pause after the state machine could not remove leftovers: each try is an entry of the log.
const LEFTOVERS_RETRY: Duration = Duration::from_secs(60);
/// The records are looked at so often also without a reason.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// A truncation takes as long as a data server may, and one that is before it in turn.
const TRUNCATION_TIME_MAX: Duration = Duration::from_secs(45);
/// A truncation waits so long for somebody to lead, and looks so often.
const LEADER_TIME_MAX: Duration = Duration::from_secs(5);
const LEADER_AGAIN: Duration = Duration::from_millis(50);

impl Data {
    /// Has the truncation done that a client waits for, by whoever leads. An error leaves the record: it is
    /// done later, and until then the file's data are answered `Delay`.
    pub(crate) async fn finish_deferred(&self, id: Option<u64>) -> Result<(), FileError> {
        let Some(id) = id else { return Ok(()) };
        let deadline = tokio::time::Instant::now() + LEADER_TIME_MAX;
        loop {
            let truncation = match self.machine.replica.leader() {
                _ if self.machine.replica.leads() => self.truncate(id).await,
                None => Outcome::NotLeader,
                Some(leader) => match self.truncate_at(&leader, id).await {
                    Outcome::Done => return self.machine.read_barrier().await,
                    truncation => truncation,
                },
            };
            match truncation {
                Outcome::Done => return Ok(()),
                Outcome::Away => return Err(FileError::Delay),
                Outcome::Io => return Err(FileError::Io),
                Outcome::NotLeader if tokio::time::Instant::now() >= deadline => {
                    return Err(FileError::Delay);
                }
                Outcome::NotLeader => tokio::time::sleep(LEADER_AGAIN).await,
            }
        }
    }

    /// Has `leader` do it. Who leads no more is not waited for: it may be cut off.
    async fn truncate_at(&self, leader: &Member, id: u64) -> Outcome {
        let deposed = async {
            while self.machine.replica.leader().as_ref() == Some(leader) {
                tokio::time::sleep(LEADER_AGAIN).await;
            }
        };
        tokio::select! {
            biased;
            truncation = self.call_to_truncate(leader, id) => truncation,
            () = deposed => Outcome::NotLeader,
        }
    }

    async fn call_to_truncate(&self, leader: &Member, operation: u64) -> Outcome {
        let question = Call::Truncate(truncate::Args { operation });
        match peers::call(&self.machine.replica, leader, &question, TRUNCATION_TIME_MAX).await {
            Ok(Reply::Truncate(res)) => res.outcome,
            Ok(_) => Outcome::NotLeader,
            // The leader at that time looks at the record.
            Err(error) => {
                tracing::debug!(%error, leader = %leader.name, "the leader did not answer about a truncation");
                Outcome::NotLeader
            }
        }
    }

    /// Does the truncation of this record, if this metaserver leads and the record is still there.
    pub(crate) async fn truncate(&self, id: u64) -> Outcome {
        match self.truncate_if_there(id).await {
            Ok(true) => Outcome::Done,
            Ok(false) => Outcome::NotLeader,
            Err(status) => {
                self.state.deferred_ready.notify_one();
                if status == FileError::Io { Outcome::Io } else { Outcome::Away }
            }
        }
    }

    /// False: another one leads.
    async fn truncate_if_there(&self, id: u64) -> Result<bool, FileError> {
        let mut deferred = self.deferred(id)?;
        if deferred.is_none() && self.machine.replica.leads() {
            // Who has just begun to lead may not have it yet.
            self.machine.read_barrier().await?;
            deferred = self.deferred(id)?;
        }
        match deferred {
            Some(deferred) => {
                let turn = self.turns.of(deferred.inode);
                let _mine = turn.lock().await;
                self.truncate_in_turn(&deferred).await
            }
            None => Ok(self.machine.replica.leads()),
        }
    }

    /// The caller has the turn of the file.
    async fn truncate_in_turn(&self, deferred: &DeferredOp) -> Result<bool, FileError> {
        // Another one, who led before or leads by now, may have done it long ago.
        if self.machine.replica.leads() {
            self.machine.read_barrier().await?;
        }
        if !self.machine.replica.leads() {
            return Ok(false);
        }
        if let (Some(deferred), DeferredKind::Truncate(size)) = (self.deferred(deferred.id)?, deferred.kind) {
            let data = self.file_data_of(deferred.inode, deferred.generation, deferred.layout)?;
            self.truncate_data(&data, size).await?;
            self.deferred_done(vec![deferred.id]).await?;
        }
        Ok(true)
    }

    fn deferred(&self, id: u64) -> Result<Option<DeferredOp>, FileError> {
        let view = self.machine.view()?;
        let next = read::deferred_ops_after(&*view, id.saturating_sub(1), 1)?;
        Ok(next.into_iter().find(|deferred| deferred.id == id))
    }

    pub(crate) async fn remove_objects(
        &self,
        target: TargetId,
        handles: Vec<Bytes>,
    ) -> Result<(), FileError> {
        let args = data::remove::Args { handles };
        self.call_target::<_, ()>(target, Procedure::Remove, args).await
    }

    async fn deferred_done(&self, ids: Vec<u64>) -> Result<(), FileError> {
        self.state.propose(None, Command::DeferredDone { ids }).await.map(drop)
    }

    /// Does what is left over, for ever: removals, and what a crash or a dead data server interrupted.
    pub(crate) async fn run_deferred(self: Arc<Self>) {
        let mut leftovers_at = Instant::now();
        loop {
            // One is enough; the others wait until they lead.
            let outcome = if self.machine.replica.leads() {
                self.leading_round(&mut leftovers_at).await
            } else {
                self.backlog.reset();
                Ok(false)
            };
            match outcome {
                Ok(true) => {}
                Ok(false) => {
                    // Notified at each removal; the time-out is for what failed before.
                    let now = Instant::now();
                    let next = self.backlog.next_try().unwrap_or(now + LOOK_EVERY);
                    let next = next.clamp(now + RETRY, now + LOOK_EVERY);
                    let _ = tokio::time::timeout_at(next, self.state.deferred_ready.notified()).await;
                }
                Err(status) => {
                    tracing::debug!(?status, "work on objects waits");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// Leftovers of the state machine, then work on objects, some of which the leftovers may have held back.
    /// Leftovers that cannot be removed are tried again at `leftovers_at`: the work on objects goes on.
    async fn leading_round(&self, leftovers_at: &mut Instant) -> Result<bool, FileError> {
        if Instant::now() >= *leftovers_at
            && let Err(status) = self.remove_leftovers().await
        {
            let faulty = status == FileError::Fault;
            if faulty {
                tracing::warn!(retry = ?LEFTOVERS_RETRY, "leftovers of ended clients cannot be removed");
            }
            *leftovers_at = Instant::now() + if faulty { LEFTOVERS_RETRY } else { RETRY };
        }
        self.deferred_round().await
    }

    /// Removes all leftovers, one command at a time: commands of clients come between.
    async fn remove_leftovers(&self) -> Result<(), FileError> {
        while self.machine.replica.leads() && read::has_leftovers(&*self.machine.view()?)? {
            self.state.propose(None, Command::RemoveLeftovers).await?;
        }
        Ok(())
    }

    /// One pass over all records that are open for a target that is tried now; whether any were done.
    async fn deferred_round(&self) -> Result<bool, FileError> {
        // Not what another one, who leads by now, has done long ago.
        self.machine.read_barrier().await?;
        let mut after = self.backlog.begin(&self.cluster.data_servers.lost_targets(), Instant::now());
        let mut any = false;
        loop {
            let batch = {
                let view = self.machine.view()?;
                read::deferred_ops_after(&*view, after, DEFERRED_MAX)?
            };
            let Some(last) = batch.last().map(|deferred| deferred.id) else { break };
            any |= self.remove_batch(&batch, after).await?;
            for deferred in batch.iter().filter(|deferred| deferred.kind != DeferredKind::Remove) {
                self.backlog.truncation_found(deferred.id, Instant::now());
            }
            after = last;
        }
        self.backlog.end(after);
        for id in self.backlog.truncations_due(Instant::now()) {
            let is_over = self.try_truncation(id).await?;
            self.backlog.truncation_tried(id, is_over, Instant::now());
            any |= is_over;
        }
        Ok(any)
    }

    /// Removals of many files in one call to each target, for which they are open. `after`: the record before
    /// the first.
    async fn remove_batch(&self, batch: &[DeferredOp], after: u64) -> Result<bool, FileError> {
        let lost = self.cluster.data_servers.lost_targets();
        let (mut calls, mut open) = (JoinSet::new(), BTreeMap::<TargetId, Vec<Bytes>>::new());
        let mut removals = Vec::new();
        for deferred in batch.iter().filter(|deferred| deferred.kind == DeferredKind::Remove) {
            let data = self.file_data_of(deferred.inode, deferred.generation, deferred.layout)?;
            for (target, handle) in self.object_handles(&data) {
                if !lost.contains(&target) && self.backlog.is_open(target, deferred.id) {
                    open.entry(target).or_default().push(handle);
                }
            }
            removals.push((deferred.id, data.targets));
        }
        for (target, handles) in open {
            let args = data::remove::Args { handles };
            let call = self.call_target::<_, ()>(target, Procedure::Remove, args);
            calls.spawn(async move { (target, call.await) });
        }
        let last = batch.last().map_or(after, |deferred| deferred.id);
        while let Some(done) = calls.join_next().await {
            let (target, result) = done.map_err(|_| FileError::Fault)?;
            match result {
                Ok(()) => self.backlog.done(target, last),
                Err(status) => {
                    tracing::debug!(target = %format!("{:016x}", target.0), ?status, "removals wait");
                    self.backlog.failed(target, after, Instant::now());
                }
            }
        }
        let is_done = |id, target: &TargetId| lost.contains(target) || self.backlog.has_done(*target, id);
        removals.retain(|(id, targets)| targets.iter().all(|target| is_done(*id, target)));
        let ids: Vec<u64> = removals.into_iter().map(|(id, _)| id).collect();
        let any = !ids.is_empty();
        if any {
            self.deferred_done(ids).await?;
        }
        Ok(any)
    }

    /// Whether there is nothing left to do for this truncation: it is done, or waits for a target that is
    /// lost.
    async fn try_truncation(&self, id: u64) -> Result<bool, FileError> {
        let Some(deferred) = self.deferred(id)? else { return Ok(true) };
        if self.waits_for_lost(&deferred)? {
            return Ok(true);
        }
        let turn = self.turns.of(deferred.inode);
        // The operation that has the turn does it.
        let Ok(_mine) = turn.try_lock() else { return Ok(false) };
        Ok(self.truncate_in_turn(&deferred).await.unwrap_or(false))
    }

    /// Whether work can never be done: a truncation of a file with a column on a target that is lost. The
    /// record stays, so that the truncation is done if the target is found after all.
    pub(crate) fn waits_for_lost(&self, deferred: &DeferredOp) -> Result<bool, FileError> {
        let lost = self.cluster.data_servers.lost_targets();
        if lost.is_empty() || deferred.kind == DeferredKind::Remove {
            return Ok(false);
        }
        let data = self.file_data_of(deferred.inode, deferred.generation, deferred.layout)?;
        Ok(data.targets.iter().any(|target| lost.contains(target)))
    }
}
