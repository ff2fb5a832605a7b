//! Opening of a replica: log, store, and the context of consensus.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use namespace::Stamp;
use store::{Store, StoreError, Trouble};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{Replica, ReplicaError};
use crate::consensus::liveness::Liveness;
use crate::consensus::{self, Started};
use crate::environment::{BlockingRunner, Environment};
use crate::log::{self, Log, LogError, StoreState};
use crate::membership::capacity::watch_capacity;
use crate::membership::reconfiguration::finish_changes;
use crate::read::read_lease::ReadLeaseGrants;
use crate::replica::server_session::ServerSession;
use crate::service::Service;
use crate::space::Space;
use crate::state::digest::DigestHistory;
use crate::state::integrity::Integrity;
use crate::state::machine::{Machine, MachineContext, Observer};
use crate::transport::Transport;
use crate::transport::address_book::AddressBook;
use crate::transport::group_transport::GroupTransport;
use crate::transport::members_file::MembersFile;
use crate::types::{Member, Membership, NodeId};
use host::watch;

/// Configuration of a replica.
#[derive(Debug, Clone)]
pub struct ReplicaConfig {
    /// Directory of the log and the store.
    pub dir: PathBuf,
    /// Commands that need space are refused while less than this is free, so that removals and closes always
    /// have space.
    pub reserve_bytes: u64,
    /// Id of this member.
    pub id: NodeId,
    /// Name and addresses of this member.
    pub member: Member,
    /// True if this member founds a group of one when it has no group; otherwise it waits to join one.
    pub founds: bool,
    /// True if this member grants and uses read leases, until [`Replica::set_read_leases`]. Not for a machine
    /// whose clock may stop while others' go on.
    pub read_leases: bool,
}

impl ReplicaConfig {
    /// Configuration of a group of one, which it founds.
    #[must_use]
    pub fn alone(dir: PathBuf, reserve_bytes: u64) -> Self {
        Self { dir, reserve_bytes, id: 1, member: Member::default(), founds: true, read_leases: true }
    }
}

/// Replica before the start of its consensus.
pub(super) struct Opening {
    environment: Environment,
    config: ReplicaConfig,
    log: Log,
    store: Arc<dyn Store>,
    transport: Arc<dyn Transport>,
    grants: Arc<ReadLeaseGrants>,
    observer: Arc<dyn Observer>,
    progress: watch::Receiver<u64>,
    failure: watch::Receiver<Option<String>>,
    removed: Arc<watch::Sender<bool>>,
    liveness: Arc<Liveness>,
    is_removed: watch::Receiver<bool>,
    nonce: u64,
    began: Instant,
    space: Arc<Space>,
    history: Arc<DigestHistory>,
    integrity: Arc<Integrity>,
}

impl Opening {
    /// Opens log and store; returns the context of consensus, too.
    pub(super) fn new(
        environment: Environment,
        config: ReplicaConfig,
        store: Arc<dyn Store>,
        stamp: Stamp,
        transport: Arc<dyn Transport>,
        observer: Arc<dyn Observer>,
    ) -> Result<(consensus::Context, Self), ReplicaError> {
        let began = Instant::now();
        let fail = |e: &dyn std::fmt::Display| ReplicaError::Failed(e.to_string());
        let members_file = MembersFile::new(Arc::clone(&environment.files), config.dir.clone());
        let noted = members_file.others(config.id);
        let damaged = |why: String, members: &Membership| {
            let others = members.voter_ids().filter(|id| *id != config.id);
            let mut others: Vec<Member> = others.filter_map(|id| members.get_node(&id).cloned()).collect();
            if members.voter_ids().next().is_none() {
                others = noted.clone().unwrap_or_default();
            }
            ReplicaError::Damaged { why, others }
        };
        let view = store.snapshot().map_err(|e| fail(&e))?;
        // The store's own records cannot be read, so nothing else in it can be trusted.
        let unreadable = |e: StoreError| match e.trouble {
            Trouble::Damaged => damaged(e.to_string(), &Membership::default()),
            Trouble::Failed => fail(&e),
        };
        let (applied, members) = crate::state::records::applied(&*view).map_err(unreadable)?;
        let installed = crate::state::records::installed(&*view).map_err(unreadable)?;
        let written = crate::state::records::written(&*view).map_err(unreadable)?;
        let incarnation = namespace::read::incarnation(&*view).map_err(unreadable)?;
        drop(view);
        if let Some(why) = Integrity::read_mark(&*environment.files, &config.dir).map_err(|e| fail(&e))? {
            return Err(damaged(why, members.membership()));
        }
        let next = applied.map_or(0, |last| last.index + 1);
        let open = |installed| {
            Log::open(
                &environment,
                &config.dir.join(log::DIR),
                StoreState { last: applied, installed, written },
            )
        };
        let mut log = open(installed);
        if let Err(LogError::Behind) = log {
            // The store first: a crash may come while the log restarts.
            crate::state::records::note_installed(&*store, applied).map_err(|e| fail(&e))?;
            log = open(applied);
        }
        let log = log.map_err(|e| match e {
            LogError::Damaged { .. } | LogError::DamagedVote(_) => {
                damaged(e.to_string(), members.membership())
            }
            e => fail(&e),
        })?;
        if applied.is_none() && log.next() == 0 && noted.is_some() {
            // It was a member, so its log had at least the membership entry.
            let why = format!("{}: the metadata are gone: log and store are empty", config.dir.display());
            return Err(damaged(why, members.membership()));
        }
        if log.lost_its_vote(applied) {
            let path = config.dir.join(log::DIR);
            let why = format!(
                "{}: the vote is gone, or older than the log: restore the metadata from a backup, or have it join others as \
                 a new member",
                path.display()
            );
            return Err(damaged(why, members.membership()));
        }
        crate::state::snapshot::remove_spools(&*environment.files, &config.dir).map_err(|e| fail(&e))?;
        let nonce = stamp.random.wrapping_add(log.next());
        let (tell_progress, progress) = watch::channel(next);
        let (failed, failure) = watch::channel(None);
        let failed = Arc::new(failed);
        let (removed, is_removed) = watch::channel(false);
        let removed = Arc::new(removed);
        let (liveness, grants) =
            (Arc::new(Liveness::new()), Arc::new(ReadLeaseGrants::new(config.id, config.read_leases)));
        let runner = BlockingRunner(environment.disk_delay.clone());
        let files = Arc::clone(&environment.files);
        let integrity = Integrity::new(files, config.dir.clone(), Arc::clone(&failed), incarnation);
        integrity.set_other_voters(members.membership().voter_ids().filter(|id| *id != config.id).count());
        let (integrity, history) = (Arc::new(integrity), Arc::new(DigestHistory::default()));
        let transport: Arc<dyn Transport> =
            Arc::new(GroupTransport { inner: transport, integrity: Arc::clone(&integrity) });
        let context = MachineContext {
            observer: Arc::clone(&observer),
            progress: tell_progress,
            failed: Arc::clone(&failed),
            runner: runner.clone(),
            plan: environment.plan,
            history: Arc::clone(&history),
            integrity: Arc::clone(&integrity),
        };
        let machine =
            Machine::new(Arc::clone(&store), log.clone(), context).map_err(|e| match e.trouble {
                Trouble::Damaged => damaged(e.to_string(), members.membership()),
                Trouble::Failed => fail(&e),
            })?;
        let space = Arc::new(Space::new(config.dir.clone(), config.reserve_bytes));
        let context = consensus::Context {
            id: config.id,
            member: config.member.clone(),
            founds: config.founds,
            stamp,
            incarnation: environment.random_id(),
            machine,
            log: log.clone(),
            store: Arc::clone(&store),
            transport: Arc::clone(&transport),
            grants: Arc::clone(&grants),
            progress: progress.clone(),
            failed,
            removed: Arc::clone(&removed),
            liveness: Arc::clone(&liveness),
            log_retention: environment.log_retention,
            // Entries for lagging members are purged before commands are refused.
            space: Arc::clone(&space),
            address_book: AddressBook::default(),
            runner,
            integrity: Arc::clone(&integrity),
            members_file,
        };
        let opening = Self {
            environment,
            config,
            log,
            store,
            transport,
            grants,
            observer,
            progress,
            failure,
            removed,
            liveness,
            is_removed,
            nonce,
            began,
            space,
            history,
            integrity,
        };
        Ok((context, opening))
    }

    pub(super) fn replica(self, started: Started) -> Replica {
        let Started { raft, stop, running, runtime } = started;
        let watches_capacity = self.config.reserve_bytes > 0;
        let service = Arc::new(Service {
            id: self.config.id,
            transport: Arc::clone(&self.transport),
            removed: self.removed,
            raft,
            log: self.log,
            grants: self.grants,
            files: self.environment.files,
            space: self.space,
            no_member_has_capacity: AtomicBool::new(!watches_capacity),
            dir: self.config.dir,
            spool: Mutex::default(),
            installation: Mutex::default(),
            observer: self.observer,
            reconfiguring: Mutex::default(),
            liveness: self.liveness,
            history: self.history,
            integrity: self.integrity,
            time: Arc::clone(&self.environment.time),
        });
        crate::service::compare::start(&service, &runtime);
        let runner = BlockingRunner(self.environment.disk_delay.clone());
        crate::service::scrub::start(&service, &self.store, runner.clone(), &runtime);
        runtime.spawn(finish_changes(Arc::downgrade(&service)));
        if watches_capacity {
            runtime.spawn(watch_capacity(Arc::downgrade(&service)));
        }
        Replica {
            id: self.config.id,
            store: self.store,
            service,
            transport: self.transport,
            read_rounds: Arc::default(),
            read_lease: Arc::default(),
            progress: self.progress,
            failure: self.failure,
            is_removed: self.is_removed,
            server_session: Arc::new(ServerSession::new(self.config.id)),
            nonce: self.nonce,
            began: self.began,
            running: Arc::new(Mutex::new(Some((stop, running)))),
            runtime,
            runner,
        }
    }
}
