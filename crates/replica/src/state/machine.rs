//! State machine behind the log: committed entries become changes of the store.
//!
//! Entries are applied in batches, each one batch of the store that also records the id of its last entry.
//! The store keeps changes in memory and is written to disk once a second (`consensus::upkeep`); after a
//! crash the log has the rest.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use namespace::{ApplyError, Command, Proposal, Reply, Time};
use openraft::OptionalSend;
use openraft::storage::{EntryResponder, RaftStateMachine, Snapshot as RaftSnapshot};
use openraft::{LogIdOptionExt, RaftSnapshotBuilder};
use store::{Durability, Edit, Store, StoreError, Trouble};

use crate::environment::{BlockingRunner, Plan};
use crate::log::Log;
use crate::state::commit::commit;
use crate::state::digest::{Digest, DigestHistory};
use crate::state::integrity::Integrity;
use crate::state::panic_guard;
use crate::state::records::{
    INSTALLED_KEY, LogIdRecord, STATE_DIGEST_KEY, StateDigest, WRITTEN_KEY, applied, encode, put_applied,
    state_digest,
};
use crate::state::snapshot::Snapshot;
use crate::types::{LeaderId, LogId, Member, Payload, SnapshotMeta, StoredMembership, Types};
use host::watch;

/// Entries in one batch: bounds the wait of other tasks on the thread of consensus.
const BATCH_MAX: usize = 256;
/// Answer of an observer to a peer.
pub type AnswerFuture = Pin<Box<dyn Future<Output = Bytes> + Send>>;
/// What an observer does before a command is ordered. The guard is held until the command is applied here, or is known not
/// to be.
pub type BeforeOrder = Pin<Box<dyn Future<Output = Box<dyn Send>> + Send>>;

/// Applied command.
#[derive(Debug, Clone, Copy)]
pub struct Applied<'a> {
    /// Its index in the log.
    pub index: u64,
    /// The command.
    pub proposal: &'a Proposal,
    /// Its reply.
    pub reply: &'a Reply,
    /// True if it leaves work to the leader: see [`namespace::Changes::leaves_work`].
    pub leaves_work: bool,
}

/// Observer of a replica's applied commands, and its user for questions of peers.
pub trait Observer: Send + Sync + 'static {
    /// A command was applied; a view taken now shows it. Called for each command, in order, on the thread of
    /// consensus: it must return soon.
    fn applied(&self, applied: &Applied<'_>);

    /// The whole store was replaced by the state of another member: a view taken now shows commands for which
    /// [`Observer::applied`] was not called.
    fn replaced(&self);

    /// Answers a question of another member's observer: see [`crate::Replica::ask_peer`].
    fn answer_peer(&self, question: Bytes) -> AnswerFuture;

    /// A command of this member, or one that another member sent to the leader, is about to be ordered. The part before the
    /// future is done at once. None: there is nothing to do, as for most commands.
    fn before_order(&self, command: &Command) -> Option<BeforeOrder>;
}

/// No observer.
impl Observer for () {
    fn applied(&self, _: &Applied<'_>) {}

    fn replaced(&self) {}

    fn answer_peer(&self, _: Bytes) -> AnswerFuture {
        Box::pin(std::future::ready(Bytes::new()))
    }

    fn before_order(&self, _: &Command) -> Option<BeforeOrder> {
        None
    }
}

/// State machine of this member.
pub(crate) struct Machine {
    store: Arc<dyn Store>,
    log: Log,
    observer: Arc<dyn Observer>,
    applied: Option<LogId>,
    members: StoredMembership,
    /// Index after the last applied entry.
    progress: watch::Sender<u64>,
    /// Reason that the store failed.
    failed: Arc<watch::Sender<Option<String>>>,
    runner: BlockingRunner,
    plan: Plan,
    state_digest: StateDigest,
    history: Arc<DigestHistory>,
    integrity: Arc<Integrity>,
}

/// Context of a state machine, beside its store and its log.
pub(crate) struct MachineContext {
    pub observer: Arc<dyn Observer>,
    pub progress: watch::Sender<u64>,
    pub failed: Arc<watch::Sender<Option<String>>>,
    pub runner: BlockingRunner,
    pub plan: Plan,
    pub history: Arc<DigestHistory>,
    pub integrity: Arc<Integrity>,
}

/// Applied entry.
struct Done {
    proposal: Option<Arc<Proposal>>,
    reply: Reply,
    leaves_work: bool,
}

impl Machine {
    /// Opens the state machine on a store.
    pub(crate) fn new(store: Arc<dyn Store>, log: Log, context: MachineContext) -> Result<Self, StoreError> {
        let MachineContext { observer, progress, failed, runner, plan, history, integrity } = context;
        let view = store.snapshot()?;
        let (applied, members) = applied(&*view)?;
        let state_digest = state_digest(&*view)?;
        drop(view);
        progress.set(applied.next_index());
        log.set_store_members(members.membership());
        history.restart(applied.next_index(), state_digest.digest);
        Ok(Self {
            store,
            log,
            observer,
            applied,
            members,
            progress,
            failed,
            runner,
            plan,
            state_digest,
            history,
            integrity,
        })
    }

    /// Applies entries in one batch of the store.
    fn apply_batch(&mut self, entries: &[EntryResponder<Types>]) -> Result<Vec<Done>, StoreError> {
        let Some((last, _)) = entries.last() else { return Ok(vec![]) };
        let mut members = None;
        let mut state_digest = self.state_digest;
        let mut done: Vec<Done> = Vec::with_capacity(entries.len());
        let mut digests = Vec::with_capacity(entries.len());
        let mut all = |edit: &mut dyn Edit| {
            for (entry, _) in entries {
                let index = entry.log_id.index;
                done.push(match &entry.payload {
                    Payload::Normal(change) => {
                        let proposal = stamped(&change.0, &mut state_digest.time);
                        let (reply, leaves_work) =
                            self.apply_one(edit, index, &proposal, &mut state_digest.digest)?;
                        Done { proposal: Some(proposal), reply, leaves_work }
                    }
                    Payload::Blank => Done { proposal: None, reply: Reply::Done, leaves_work: false },
                    Payload::Membership(membership) => {
                        members = Some(StoredMembership::new(Some(entry.log_id), membership.clone()));
                        Done { proposal: None, reply: Reply::Done, leaves_work: false }
                    }
                });
                digests.push((index + 1, state_digest.digest));
            }
            edit.put(WRITTEN_KEY, &encode(&self.log.written())?)?;
            edit.put(STATE_DIGEST_KEY, &encode(&state_digest)?)?;
            put_applied(edit, Some(last.log_id), members.as_ref())
        };
        self.store.batch(Durability::Deferred, &mut all)?;
        self.applied = Some(last.log_id);
        self.state_digest = state_digest;
        self.history.note(digests);
        let is_new = |done: &Done| {
            done.proposal.as_ref().is_some_and(|proposal| matches!(proposal.command, Command::Format { .. }))
        };
        if self.integrity.incarnation().is_none() && done.iter().any(is_new) {
            self.integrity.set_incarnation(namespace::read::incarnation(&*self.store.snapshot()?)?);
        }
        self.members = members.unwrap_or_else(|| self.members.clone());
        Ok(done)
    }

    /// Applies one command, whole or not at all. A command that finds or breaks an invariant of the state
    /// machine does so on every replica: its reply is a fault, and it changes nothing. Returns the reply, and whether
    /// the command leaves work to the leader.
    fn apply_one(
        &self,
        edit: &mut dyn Edit,
        index: u64,
        proposal: &Proposal,
        digest: &mut Digest,
    ) -> Result<(Reply, bool), StoreError> {
        let view = self.integrity.checked(&*edit);
        let invariant = match panic_guard::guarded(|| (self.plan)(&view, proposal)) {
            Ok(Ok(outcome)) => {
                let leaves_work = outcome.changes.leaves_work();
                return Ok((commit(edit, outcome, &self.integrity, digest)?, leaves_work));
            }
            Ok(Err(ApplyError::Failed(error))) => return Err(error),
            Ok(Err(ApplyError::Broken(invariant))) => invariant,
            Err(()) => "the panic's message before this line says which",
        };
        panic_guard::count_fault();
        tracing::error!(
            index,
            command = ?proposal.command,
            invariant,
            "a command broke an invariant of the state machine, and was dropped on all metaservers: report it \
             with this line and a panic's message before it"
        );
        let view = self.integrity.checked(&*edit);
        let outcome = namespace::plan_fault(&view, proposal)?;
        Ok((commit(edit, outcome, &self.integrity, digest)?, false))
    }

    fn meta(&self) -> SnapshotMeta {
        SnapshotMeta { last_log_id: self.applied, last_membership: self.members.clone() }
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotData = Snapshot;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        Ok((self.applied, self.members.clone()))
    }

    async fn apply<S>(&mut self, entries: S) -> Result<(), io::Error>
    where
        S: Stream<Item = Result<EntryResponder<Types>, io::Error>> + Unpin + OptionalSend,
    {
        let mut batches = entries.ready_chunks(BATCH_MAX);
        while let Some(batch) = batches.next().await {
            let batch = batch.into_iter().collect::<Result<Vec<_>, _>>()?;
            let done = self.apply_batch(&batch).map_err(|e| {
                if e.trouble == Trouble::Damaged {
                    self.integrity.report_damage(&e.to_string());
                }
                self.failed.set(Some(e.to_string()));
                io::Error::other(e)
            })?;
            let next = self.applied.next_index();
            for ((entry, responder), Done { proposal, reply, leaves_work }) in batch.into_iter().zip(done) {
                if let Some(proposal) = proposal {
                    let (index, proposal, reply) = (entry.log_id.index, &*proposal, &reply);
                    self.observer.applied(&Applied { index, proposal, reply, leaves_work });
                }
                if let Some(responder) = responder {
                    responder.send(reply);
                }
            }
            self.progress.set(next);
            self.log.applied(next);
            // Lets other tasks of this thread run, above all heartbeats.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        Builder { store: Arc::clone(&self.store), runner: self.runner.clone() }
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: Snapshot) -> Result<(), io::Error> {
        let (store, last, members) =
            (Arc::clone(&self.store), meta.last_log_id, meta.last_membership.clone());
        let install = move || {
            let installed =
                last.map(|last| encode(&LogIdRecord::from(last))).transpose().map_err(io::Error::other)?;
            snapshot.install(&*store, installed.map(|record| (INSTALLED_KEY.to_vec(), record)))?;
            let mut put = |edit: &mut dyn Edit| {
                // The record in the snapshot is that of another member.
                edit.put(WRITTEN_KEY, &encode(&0_u64)?)?;
                put_applied(edit, last, Some(&members))
            };
            store.batch(Durability::Immediate, &mut put).map_err(io::Error::other)
        };
        self.runner.run(install).await.map_err(io::Error::other)??;
        (self.applied, self.members) = (meta.last_log_id, meta.last_membership.clone());
        self.log.set_store_members(self.members.membership());
        let view = self.store.snapshot().map_err(io::Error::other)?;
        self.state_digest = state_digest(&*view).map_err(io::Error::other)?;
        self.history.restart(self.applied.next_index(), self.state_digest.digest);
        self.integrity.set_incarnation(namespace::read::incarnation(&*view).map_err(io::Error::other)?);
        drop(view);
        self.observer.replaced();
        let next = self.applied.next_index();
        self.progress.set(next);
        self.log.applied(next);
        Ok(())
    }

    async fn get_current_snapshot(
        &mut self,
    ) -> Result<Option<RaftSnapshot<LeaderId, u64, Member, Snapshot>>, io::Error> {
        // The store is the snapshot, as it is now.
        if self.applied.is_none() {
            return Ok(None);
        }
        let view = self.store.snapshot().map_err(io::Error::other)?;
        Ok(Some(RaftSnapshot { meta: self.meta(), snapshot: Snapshot::Taken(view.into()) }))
    }
}

/// Builder of a snapshot: it writes the store to disk, so that the log before it may be purged.
pub(crate) struct Builder {
    store: Arc<dyn Store>,
    runner: BlockingRunner,
}

impl RaftSnapshotBuilder<Types> for Builder {
    type SnapshotData = Snapshot;

    async fn build_snapshot(&mut self) -> Result<RaftSnapshot<LeaderId, u64, Member, Snapshot>, io::Error> {
        let view = self.store.snapshot().map_err(io::Error::other)?;
        let (last_log_id, last_membership) = applied(&*view).map_err(io::Error::other)?;
        let store = Arc::clone(&self.store);
        let flush = move || store.batch(Durability::Immediate, &mut |_| Ok(()));
        self.runner.run(flush).await.map_err(io::Error::other)?.map_err(io::Error::other)?;
        let meta = SnapshotMeta { last_log_id, last_membership };
        Ok(RaftSnapshot { meta, snapshot: Snapshot::Taken(view.into()) })
    }
}

/// The proposal with a time not before the last command's: all members do the same.
fn stamped(proposal: &Arc<Proposal>, last: &mut Time) -> Arc<Proposal> {
    if proposal.stamp.time >= *last {
        *last = proposal.stamp.time;
        return Arc::clone(proposal);
    }
    let mut later = Proposal::clone(proposal);
    later.stamp.time = *last;
    Arc::new(later)
}
