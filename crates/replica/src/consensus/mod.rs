//! Thread of consensus: openraft on a runtime of its own, and the upkeep of log and store.

pub(crate) mod leader_watch;
pub(crate) mod liveness;
pub(crate) mod network;
pub(crate) mod removal;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use namespace::{Command, Proposal, Stamp};
use openraft::type_config::async_runtime::WatchReceiver;
use openraft::{Config, Raft, SnapshotPolicy};
use store::{Durability, Store, Trouble};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::consensus::leader_watch::watch_leader;
use crate::consensus::liveness::{ELECTION_AFTER, HEARTBEAT, Liveness, reachable, reachable_leader};
use crate::consensus::network::Network;
use crate::consensus::removal::watch_removal;
use crate::environment::{BlockingRunner, LogRetention, RunningTask};
use crate::log::Log;
use crate::read::read_lease::ReadLeaseGrants;
use crate::space::{FreeSpace, Space};
use crate::state::integrity::Integrity;
use crate::state::machine::Machine;
use crate::transport::Transport;
use crate::transport::address_book::AddressBook;
use crate::transport::members_file::MembersFile;
use crate::types::{Change, Member, NodeId, Types};
use host::watch;

/// Interval between writes of the store to disk: bounds the commands that are applied again after a crash.
const STORE_SYNC_EVERY: Duration = Duration::from_secs(1);
/// Interval of checks whether the leader is still reachable.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Longest election. A group that has no leader for longer has no majority.
const ELECTION_TIME_MAX: Duration = Duration::from_secs(3);

/// Retry interval while an entry that changes the voters is not yet applied and on disk here.
const NOTE_AGAIN: Duration = Duration::from_millis(100);

/// Context of the thread.
pub(crate) struct Context {
    pub id: NodeId,
    pub member: Member,
    pub founds: bool,
    pub stamp: Stamp,
    /// Incarnation id for a new name space.
    pub incarnation: [u8; 16],
    pub machine: Machine,
    pub log: Log,
    pub store: Arc<dyn Store>,
    pub transport: Arc<dyn Transport>,
    pub grants: Arc<ReadLeaseGrants>,
    pub progress: watch::Receiver<u64>,
    pub failed: Arc<watch::Sender<Option<String>>>,
    pub removed: Arc<watch::Sender<bool>>,
    pub liveness: Arc<Liveness>,
    pub log_retention: LogRetention,
    pub space: Arc<Space>,
    pub address_book: AddressBook,
    pub runner: BlockingRunner,
    pub integrity: Arc<Integrity>,
    pub members_file: MembersFile,
}

/// Started thread or task.
pub(crate) struct Started {
    pub raft: Raft<Types, Machine>,
    pub stop: oneshot::Sender<()>,
    pub running: RunningTask,
    pub runtime: Handle,
}

/// Result of the start.
type Begun = Result<(Raft<Types, Machine>, Handle), String>;

/// Starts the thread.
pub(crate) fn start(context: Context) -> Result<Started, String> {
    let (tell, told) = std::sync::mpsc::sync_channel(1);
    let (stop, stopped) = oneshot::channel();
    let on_thread = move || {
        // A runtime of one thread: its tasks exchange data on one processor.
        match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime.block_on(run(context, |begun| drop(tell.send(begun)), stopped)),
            Err(e) => drop(tell.send(Err(e.to_string()))),
        }
    };
    let thread =
        std::thread::Builder::new().name("consensus".into()).spawn(on_thread).map_err(|e| e.to_string())?;
    let (raft, runtime) = told.recv().map_err(|_| "the thread of consensus ended".to_owned())??;
    Ok(Started { raft, stop, running: RunningTask::Thread(thread), runtime })
}

/// Starts consensus as a task, for a simulation, which has one thread.
pub(crate) async fn start_task(context: Context) -> Result<Started, String> {
    let (tell, told) = oneshot::channel();
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(run(context, |begun| drop(tell.send(begun)), stopped));
    let (raft, runtime) = told.await.map_err(|_| "the task of consensus ended".to_owned())??;
    Ok(Started { raft, stop, running: RunningTask::Task(task), runtime })
}

/// Runs consensus until `stopped` is signalled or it fails; calls `tell` once it has started.
async fn run(context: Context, tell: impl FnOnce(Begun), stopped: oneshot::Receiver<()>) {
    let (log, store, failed) = (context.log.clone(), Arc::clone(&context.store), Arc::clone(&context.failed));
    let (progress, runner, retention) =
        (context.progress.clone(), context.runner.clone(), context.log_retention);
    let (id, transport, told) = (context.id, Arc::clone(&context.transport), Arc::clone(&context.removed));
    let (liveness, address_book) = (Arc::clone(&context.liveness), context.address_book.clone());
    let (space, integrity) = (Arc::clone(&context.space), Arc::clone(&context.integrity));
    let (members_file, noting, applied) = (context.members_file.clone(), runner.clone(), progress.clone());
    let raft = match begin(context).await {
        Ok(raft) => raft,
        Err(why) => return tell(Err(why)),
    };
    tell(Ok((raft.clone(), Handle::current())));
    let outcome = tokio::select! {
        biased;
        _ = stopped => Ok(()),
        why = upkeep(&raft, &log, (&store, &integrity), progress, &runner, (retention, &space)) => Err(why),
        why = ended(&raft, (&address_book, &integrity), &liveness) => Err(why),
        why = note_voters((&raft, &log), &members_file, applied, &noting) => Err(why),
        why = watch_removal(id, &raft, &transport, &told) => Err(why),
        () = watch_leader(id, &raft, &transport, &liveness) => Err("consensus ended".into()),
    };
    let _ = raft.shutdown().await;
    if let Err(reason) = outcome.and_then(|()| flush(&*store, &integrity)) {
        let reason = failed.get().clone().or_else(|| log.failure()).unwrap_or(reason);
        tracing::error!(%reason, "the metadata service stops: see the reason");
        failed.set(Some(reason));
    }
}

/// Starts openraft over log and state machine, and founds a group of one where none exists.
async fn begin(context: Context) -> Result<Raft<Types, Machine>, String> {
    let millis = |time: Duration| time.as_millis() as u64;
    let config = Config {
        cluster_name: "metadata".into(),
        heartbeat_interval: millis(HEARTBEAT),
        election_timeout_min: millis(ELECTION_AFTER.0),
        election_timeout_max: millis(ELECTION_AFTER.1),
        enable_pre_vote: Some(true),
        // After a restart a leader that resumes its term does not know its commit index, and would confirm
        // reads that miss committed entries. A new term begins with an entry that settles the commit index.
        enable_leader_restore: Some(false),
        // `upkeep` purges the log by bytes, and sends a snapshot only to a member that needs purged entries.
        // openraft alone purges nothing behind the snapshot that `purge` needs: that snapshot would have all
        // that is applied.
        snapshot_policy: SnapshotPolicy::Never,
        replication_lag_threshold: u64::MAX / 2,
        max_in_snapshot_log_to_keep: u64::MAX,
        ..Config::default()
    };
    let config = Arc::new(config.validate().map_err(|e| e.to_string())?);
    let (grants, log) = (Arc::clone(&context.grants), context.log.clone());
    let network =
        Network { transport: context.transport, address_book: context.address_book, grants: context.grants };
    let raft = Raft::new(context.id, config, network, context.log, context.machine).await;
    let raft = raft.map_err(|e| e.to_string())?;
    grants.follow_metrics(raft.metrics());
    if context.founds && !raft.is_initialized().await.map_err(|e| e.to_string())? {
        let group = BTreeMap::from([(context.id, context.member)]);
        raft.initialize(group).await.map_err(|e| e.to_string())?;
    } else if log.only_voter() == Some(context.id) {
        // The only voter elects itself at once.
        raft.trigger().elect(false).await.map_err(|e| e.to_string())?;
    }
    if log.only_voter() == Some(context.id) {
        settle(&raft, context.stamp, context.incarnation).await?;
    }
    Ok(raft)
}

/// Proposes the command that formats a new name space, so that all members begin equal. A group of one that
/// answered it has applied all earlier entries.
async fn settle(raft: &Raft<Types, Machine>, stamp: Stamp, incarnation: [u8; 16]) -> Result<(), String> {
    let leads = |metrics: &openraft::RaftMetrics<Types>| metrics.state.is_leader();
    raft.wait(None).metrics(leads, "the only voter leads").await.map_err(|e| e.to_string())?;
    let proposal = Proposal::new(stamp, None, Command::Format { incarnation });
    raft.client_write(Change(Arc::new(proposal))).await.map(drop).map_err(|e| e.to_string())
}

/// Writes the store to disk once a second, then purges the log. Returns the reason when it fails.
async fn upkeep(
    raft: &Raft<Types, Machine>,
    log: &Log,
    (store, integrity): (&Arc<dyn Store>, &Arc<Integrity>),
    mut progress: watch::Receiver<u64>,
    runner: &BlockingRunner,
    (retention, space): (LogRetention, &Space),
) -> String {
    let mut waits = false;
    loop {
        if progress.changed().await.is_err() {
            return std::future::pending().await;
        }
        tokio::time::sleep(STORE_SYNC_EVERY).await;
        let applied = *progress.get_and_mark();
        if log.written() < applied {
            // A majority has entries that this disk has no space for; the store must not get ahead of the
            // log.
            progress.mark_changed();
            continue;
        }
        // The store fails for good when one of its writes finds no space; the log has the missing changes.
        if space.free() == FreeSpace::Nothing {
            if !std::mem::replace(&mut waits, true) {
                tracing::error!(
                    "no space to write the metadata store to disk, the log keeps its changes: free space on this disk"
                );
            }
            progress.mark_changed();
            continue;
        }
        if std::mem::take(&mut waits) {
            tracing::info!("the metadata store has space again");
        }
        let (its_store, its_log, its_integrity) = (Arc::clone(store), log.clone(), Arc::clone(integrity));
        let to_disk = move || flush(&*its_store, &its_integrity).inspect(|()| its_log.keep_spare());
        match runner.run(to_disk).await {
            Ok(Ok(())) => {}
            Ok(Err(reason)) => return reason,
            Err(panic) => return panic,
        }
        let lagging = lagging(&raft.metrics().borrow_watched()).filter(|_| space.free() == FreeSpace::Plenty);
        if let Some(upto) = log.can_purge(retention, lagging).filter(|upto| *upto < applied)
            && let Err(reason) = purge(raft, upto).await
        {
            return reason;
        }
    }
}

/// If this member leads: the index after the last entry that all reachable members have.
fn lagging(metrics: &openraft::RaftMetrics<Types>) -> Option<u64> {
    let reachable = reachable(metrics);
    let matched = metrics.replication.as_ref()?.iter().filter(|(id, _)| reachable.contains(id));
    matched.map(|(_, at)| at.as_ref().map_or(0, |at| at.index + 1)).min()
}

/// Purges the log up to `upto`. openraft purges only behind a snapshot; the store on disk is the snapshot.
async fn purge(raft: &Raft<Types, Machine>, upto: u64) -> Result<(), String> {
    raft.trigger().snapshot().await.map_err(|e| e.to_string())?;
    let reached =
        |metrics: &openraft::RaftMetrics<Types>| metrics.snapshot.is_some_and(|at| at.index >= upto);
    raft.wait(None).metrics(reached, "the store is on disk").await.map_err(|e| e.to_string())?;
    raft.trigger().purge_log(upto).await.map_err(|e| e.to_string())
}

fn flush(store: &dyn Store, integrity: &Integrity) -> Result<(), String> {
    store.batch(Durability::Immediate, &mut |_| Ok(())).map_err(|error| {
        // A store that is damaged fails at each start: it is to be rebuilt.
        if error.trouble == Trouble::Damaged {
            integrity.report_damage(&error.to_string());
        }
        error.to_string()
    })
}

/// Keeps the file of voters up to date; returns when openraft has stopped. Only a membership that is applied
/// and in the log on disk is written: a member that has the file had a log.
async fn note_voters(
    (raft, log): (&Raft<Types, Machine>, &Log),
    file: &MembersFile,
    progress: watch::Receiver<u64>,
    runner: &BlockingRunner,
) -> String {
    // Metrics that do not change with each entry.
    let mut metrics = raft.server_metrics();
    let mut noted = None;
    loop {
        let now = metrics.borrow_and_update().membership_config.clone();
        let next = now.log_id().map_or(0, |at| at.index + 1);
        if *progress.get() < next || log.durable() < next {
            tokio::time::sleep(NOTE_AGAIN).await;
            continue;
        }
        if noted.as_ref() != Some(now.log_id()) && now.membership().voter_ids().next().is_some() {
            noted = Some(*now.log_id());
            let (file, members) = (file.clone(), now.membership().clone());
            if let Ok(Err(error)) = runner.run(move || file.write(&members)).await {
                tracing::warn!(
                    %error,
                    "cannot write the file of the other metaservers: if this one loses its store, it must join by hand"
                );
            }
        }
        if metrics.changed().await.is_err() {
            return "consensus ended".into();
        }
    }
}

/// Logs changes of the leader, updates the address book, and returns the reason when openraft has stopped.
async fn ended(
    raft: &Raft<Types, Machine>,
    (address_book, integrity): (&AddressBook, &Integrity),
    liveness: &Liveness,
) -> String {
    let mut metrics = raft.metrics();
    let (mut elected, mut leader, mut members) = (None, None, None);
    // Start of the time without a leader, until it is reported.
    let mut leaderless = None;
    let mut looks = tokio::time::interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut is_due = true;
    loop {
        {
            let now = metrics.borrow_and_update();
            if let Err(fatal) = &now.running_state {
                return fatal.to_string();
            }
            if members.as_ref() != Some(now.membership_config.log_id()) {
                members = Some(*now.membership_config.log_id());
                let members = now.membership_config.membership();
                address_book.replace(members);
                integrity.set_other_voters(members.voter_ids().filter(|id| *id != now.id).count());
            }
            if now.current_leader != elected {
                elected = now.current_leader;
                if elected == Some(now.id) {
                    liveness.note_election();
                }
                is_due = true;
            }
            let leads = if is_due { reachable_leader(&now, liveness) } else { leader };
            if leads != leader {
                leader = leads;
                let member = leader.and_then(|id| now.membership_config.membership().get_node(&id).cloned());
                match (member, leader) {
                    (Some(member), _) => {
                        tracing::info!(leader = %member.name, term = now.current_term, "a metaserver leads");
                        leaderless = None;
                    }
                    // This member joins, and does not know the members yet.
                    (None, Some(_)) => leaderless = None,
                    (None, None) => {
                        tracing::info!(
                            term = now.current_term,
                            "no leader: it is unreachable or has resigned, an election follows"
                        );
                        leaderless = Some(tokio::time::Instant::now());
                    }
                }
            }
            if leaderless.is_some_and(|since| since.elapsed() >= ELECTION_TIME_MAX) {
                tracing::warn!(
                    term = now.current_term,
                    "no leader for seconds, clients wait: start metaservers until a majority of the voters runs"
                );
                leaderless = None;
            }
        }
        is_due = tokio::select! {
            biased;
            _ = looks.tick() => true,
            changed = metrics.changed() => match changed {
                Ok(()) => false,
                Err(_) => return "consensus ended".into(),
            },
        };
    }
}
