//! Deferred object operations: truncate, remove and fence. A command leaves a record (the intent), this module does
//! the work, and [`Command::DeferredDone`] removes the record (the outcome). After a crash, the next leader
//! finds the records and goes on.
//!
//! The same loop removes the leftovers of clients that ended (`namespace`). Leftovers can hold back the
//! removal of files.
//!
//! A removal or a fence that is done twice does no harm. A truncation has an epoch of its own, and a data
//! server does it once. Only the leader truncates, one truncation of a file at a time, and it reads the record
//! again before each:
//!
//! ```text
//! any      SetAttributes ─▶ record ─▶ peer TRUNCATE ──┐                          ┌─▶ read_barrier ─▶ answer
//! leader                                             └▶ lock ─ read ─ truncation ─ DeferredDone
//! ```

pub(crate) mod backlog;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cluster::peers;
use namespace::{ChainId, Command, DeferredKind, DeferredOp, TargetId, read};
use replica::Member;
use tokio::task::JoinSet;
use tokio::time::Instant;
use wire::data::{self, Procedure};
use wire::peer::files::truncate::{self, Outcome};
use wire::peer::{Call, Reply};

use crate::data::Data;
use crate::data::call::TIME_MAX;
use crate::data::hold::{unheld, wait_for_return};
use crate::data::proxy::FileData;
use crate::errors::FileError;

/// Maximum of records processed at a time: bounds one REMOVE call to a data server.
const DEFERRED_MAX: usize = 256;
/// Pause after the metadata could not be read or changed, and minimum pause between two tries.
const RETRY: Duration = Duration::from_millis(500);
/// Pause after the state machine could not remove leftovers: each try is an entry of the log.
const LEFTOVERS_RETRY: Duration = Duration::from_secs(60);
/// Interval of passes over the records without a notification.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Time limit of a truncation: a data server's time to answer, and one earlier truncation of the file.
const TRUNCATION_TIME_MAX: Duration = Duration::from_secs(45);
/// Time limit for a leader to be elected, in a truncation, and poll interval of that wait.
const LEADER_TIME_MAX: Duration = Duration::from_secs(5);
const LEADER_AGAIN: Duration = Duration::from_millis(50);

/// Handles of the objects of one target.
#[derive(Default)]
struct ToDo {
    remove: Vec<Bytes>,
    fence: Vec<Bytes>,
    /// Chains of these objects.
    chains: Vec<ChainId>,
}

impl Data {
    /// Waits until the leader has done the truncation `id`, for a client's request. After an error the record
    /// stays: the truncation is done later, and until then requests for the file's data are answered `Delay`.
    pub(crate) async fn finish_deferred(&self, id: Option<u64>) -> Result<(), FileError> {
        let Some(id) = id else { return Ok(()) };
        let deadline = tokio::time::Instant::now() + LEADER_TIME_MAX;
        loop {
            let truncation = match self.machine.replica.leader() {
                _ if self.machine.replica.leads() => unheld(self.truncate(id)).await,
                None => Outcome::NotLeader,
                Some(leader) => match self.truncate_at(&leader, id).await {
                    Outcome::Done => return self.machine.read_barrier().await,
                    truncation => truncation,
                },
            };
            match truncation {
                Outcome::Done => return Ok(()),
                Outcome::Away => wait_for_return(FileError::Delay).await?,
                Outcome::Io => return Err(FileError::Io),
                Outcome::NotLeader if tokio::time::Instant::now() >= deadline => {
                    return Err(FileError::Delay);
                }
                Outcome::NotLeader => tokio::time::sleep(LEADER_AGAIN).await,
            }
        }
    }

    /// Asks `leader` to do the truncation. The wait ends when `leader` does not lead any more: it may be
    /// unreachable.
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
            // The leader of that time reads the record.
            Err(error) => {
                tracing::debug!(%error, leader = %leader.name, "the leader did not answer about a truncation");
                Outcome::NotLeader
            }
        }
    }

    /// Does the truncation of this record, if this metaserver leads and the record still exists.
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

    /// Like [`Data::truncate`]; false if another metaserver leads.
    async fn truncate_if_there(&self, id: u64) -> Result<bool, FileError> {
        let mut deferred = self.deferred(id)?;
        if deferred.is_none() && self.machine.replica.leads() {
            // A new leader may not have applied the record yet.
            self.machine.read_barrier().await?;
            deferred = self.deferred(id)?;
        }
        match deferred {
            Some(deferred) => {
                let lock = self.content_locks.of(deferred.inode);
                let _mine = lock.lock().await;
                self.truncate_locked(&deferred).await
            }
            None => Ok(self.machine.replica.leads()),
        }
    }

    /// Truncates the objects of a file, whose lock the caller holds.
    async fn truncate_locked(&self, deferred: &DeferredOp) -> Result<bool, FileError> {
        // An earlier or a new leader may have done the truncation already.
        if self.machine.replica.leads() {
            self.machine.read_barrier().await?;
        }
        if !self.machine.replica.leads() {
            return Ok(false);
        }
        if let (Some(deferred), DeferredKind::Truncate(size)) = (self.deferred(deferred.id)?, deferred.kind) {
            let data = self.data_of_deferred(&deferred)?;
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

    /// The objects of a deferred operation, with the present epochs of their file; a removal has none.
    fn data_of_deferred(&self, deferred: &DeferredOp) -> Result<FileData, FileError> {
        let DeferredOp { inode, generation, layout, kind, .. } = *deferred;
        let view = self.machine.view()?;
        let file = match kind {
            // Of these objects, which are no file's any more.
            DeferredKind::Remove => None,
            DeferredKind::Truncate(_) | DeferredKind::Fence => read::inode(&*view, inode)?,
        };
        match file.filter(|file| file.generation == generation) {
            Some(file) => self.file_data_of(&file, layout),
            None => self.file_data_at(inode, generation, (0, 0), layout),
        }
    }

    pub(crate) async fn remove_objects(
        &self,
        target: TargetId,
        handles: Vec<Bytes>,
        only: data::remove::Only,
    ) -> Result<(), FileError> {
        let args = data::remove::Args { handles, only };
        self.call_target::<_, ()>(target, Procedure::Remove, args).await
    }

    async fn deferred_done(&self, ids: Vec<u64>) -> Result<(), FileError> {
        self.state.propose(None, Command::DeferredDone { ids }).await.map(drop)
    }

    /// Carries out deferred operations: removals, and work that a crash or an unreachable data server
    /// interrupted. Never returns.
    pub(crate) async fn run_deferred(self: Arc<Self>) {
        let mut leftovers_at = Instant::now();
        loop {
            // Only the leader works; the other metaservers wait until they lead.
            let leads = self.machine.replica.leads();
            let outcome = if leads {
                self.leading_round(&mut leftovers_at).await
            } else {
                self.backlog.reset();
                Ok(false)
            };
            match outcome {
                Ok(true) => {}
                Ok(false) => {
                    // Each removal notifies this loop; the time-out is for work that failed before.
                    let now = Instant::now();
                    let next = self.backlog.next_try().unwrap_or(now + LOOK_EVERY);
                    // One that does not lead may begin to, and has then been told already.
                    let next = if leads { next.clamp(now + RETRY, now + LOOK_EVERY) } else { now + RETRY };
                    let _ = tokio::time::timeout_at(next, self.state.deferred_ready.notified()).await;
                }
                Err(status) => {
                    tracing::debug!(?status, "work on objects waits");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// Removes leftovers of the state machine, then does object operations, since leftovers can hold back
    /// removals. If leftovers cannot be removed, the next try is at `leftovers_at`, and object operations go
    /// on.
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

    /// Removes all leftovers, in several commands so that commands of clients come between.
    async fn remove_leftovers(&self) -> Result<(), FileError> {
        while self.machine.replica.leads() && read::has_leftovers(&*self.machine.view()?)? {
            self.state.propose(None, Command::RemoveLeftovers).await?;
        }
        Ok(())
    }

    /// One pass over all records that are open for a target tried in this pass. Returns true if any were
    /// done.
    async fn deferred_round(&self) -> Result<bool, FileError> {
        // Skips records that a new leader has done already.
        self.machine.read_barrier().await?;
        let mut after = self.backlog.begin(&self.cluster.data_servers.lost_targets(), Instant::now());
        let mut any = false;
        loop {
            let batch = {
                let view = self.machine.view()?;
                read::deferred_ops_after(&*view, after, DEFERRED_MAX)?
            };
            let Some(last) = batch.last().map(|deferred| deferred.id) else { break };
            any |= self.remove_and_fence(&batch, after).await?;
            let truncates = |op: &&DeferredOp| matches!(op.kind, DeferredKind::Truncate(_));
            for deferred in batch.iter().filter(truncates) {
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

    /// Removes the objects of many files, and tells others their epoch, with one call of each kind to each
    /// target for which the records are open. `after`: id of the record before the first.
    async fn remove_and_fence(&self, batch: &[DeferredOp], after: u64) -> Result<bool, FileError> {
        let lost = self.cluster.data_servers.lost_targets();
        let (mut calls, mut open) = (JoinSet::new(), BTreeMap::<TargetId, ToDo>::new());
        let mut ops = Vec::new();
        for deferred in batch.iter().filter(|deferred| !matches!(deferred.kind, DeferredKind::Truncate(_))) {
            let data = self.data_of_deferred(deferred)?;
            let handles = self.object_handles(&data);
            let targets: Vec<TargetId> = handles.iter().map(|(_, target, _)| *target).collect();
            for (chain, target, handle) in handles {
                if !lost.contains(&target) && self.backlog.is_open(target, deferred.id) {
                    let todo = open.entry(target).or_default();
                    todo.chains.push(chain);
                    match deferred.kind {
                        DeferredKind::Fence => todo.fence.push(handle),
                        DeferredKind::Remove | DeferredKind::Truncate(_) => todo.remove.push(handle),
                    }
                }
            }
            ops.push((deferred.id, targets));
        }
        for (target, ToDo { remove, fence, chains }) in open {
            // A head that hangs is left when its chain has another.
            let head = || (target, chains.clone());
            // A data server notes the epoch of any call; this one also makes durable what was written before.
            let fence = (!fence.is_empty()).then(|| {
                let args = data::stat::Args { handles: fence, sync: true };
                self.call_head::<_, data::stat::ResOk>(head(), Procedure::Stat, args, TIME_MAX)
            });
            let remove = (!remove.is_empty()).then(|| {
                let args = data::remove::Args { handles: remove, only: data::remove::Only::All };
                self.call_head::<_, ()>(head(), Procedure::Remove, args, TIME_MAX)
            });
            calls.spawn(async move {
                let both = async {
                    if let Some(fence) = fence {
                        fence.await?;
                    }
                    if let Some(remove) = remove { remove.await } else { Ok(()) }
                };
                (target, both.await)
            });
        }
        let last = batch.last().map_or(after, |deferred| deferred.id);
        while let Some(done) = calls.join_next().await {
            let (target, result) = done.map_err(|_| FileError::Fault)?;
            match result {
                Ok(()) => self.backlog.done(target, last),
                Err(status) => {
                    tracing::debug!(target = %format!("{:016x}", target.0), ?status, "removals and fences wait");
                    self.backlog.failed(target, after, Instant::now());
                }
            }
        }
        let is_done = |id, target: &TargetId| lost.contains(target) || self.backlog.has_done(*target, id);
        ops.retain(|(id, targets)| targets.iter().all(|target| is_done(*id, target)));
        let ids: Vec<u64> = ops.into_iter().map(|(id, _)| id).collect();
        let any = !ids.is_empty();
        if any {
            self.deferred_done(ids).await?;
        }
        Ok(any)
    }

    /// Tries a truncation. Returns true if nothing is left to do: it is done, or waits for a lost target.
    async fn try_truncation(&self, id: u64) -> Result<bool, FileError> {
        let Some(deferred) = self.deferred(id)? else { return Ok(true) };
        if self.waits_for_lost(&deferred)? {
            return Ok(true);
        }
        let lock = self.content_locks.of(deferred.inode);
        // The operation that holds the file's lock does the truncation.
        let Ok(_mine) = lock.try_lock() else { return Ok(false) };
        Ok(self.truncate_locked(&deferred).await.unwrap_or(false))
    }

    /// True if a deferred operation waits for a lost target: a truncation of a file with a column there. The
    /// record stays, so that the truncation is done if the operator declares the target found again.
    pub(crate) fn waits_for_lost(&self, deferred: &DeferredOp) -> Result<bool, FileError> {
        let lost = self.cluster.data_servers.lost_targets();
        if lost.is_empty() || !matches!(deferred.kind, DeferredKind::Truncate(_)) {
            return Ok(false);
        }
        let data = self.data_of_deferred(deferred)?;
        Ok(data.chains.iter().any(|chain| self.cluster.is_chain_lost(*chain)))
    }
}
