//! NFS client of the simulation: one mount, with a session that it takes to whichever metaserver answers,
//! opens, locks, layouts and delegations.
//!
//! ```text
//! keeper ─ mounts, renews the lease, binds the back channel      slot 0
//! returner ─ gives back what was recalled                        slot 1
//! workers ─ open, lock, lay out, write, truncate, remove, close  slots 2 and 3
//! with whole data servers, a worker writes records instead       slot 3
//! auditor ─ reads all records at the end                         slot 2
//! ```

mod callbacks;
mod calls;
mod data_sessions;
mod keeper;
mod recallable;
mod records;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use nfs::Connection;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinHandle};
use wire::nfs4::{ClientId, SessionId, Stateid};

use crate::claims::Life;
use crate::net::Address;
use crate::rng::Rng;
use crate::shared::Shared;

/// Slot of the lease's keeper.
const KEEPER: u32 = 0;
/// Slot of what gives back recalled state.
const RETURNER: u32 = 1;
/// Slots of the workers.
const WORKERS: [u32; 2] = [2, 3];
/// Slot of the worker that writes records.
const RECORD_KEEPER: u32 = 3;
/// Slots of the session.
const SLOTS: usize = 4;

/// The session is gone, with all state; or the client ends.
#[derive(Debug, Clone, Copy)]
pub struct Gone;

/// Session of a mount.
#[derive(Debug, Clone, Copy)]
struct Session {
    id: SessionId,
    client: ClientId,
    life: Life,
}

/// Recallable state of one file.
#[derive(Debug, Clone, Copy)]
struct Recallable {
    stateid: Stateid,
    /// True once it was recalled.
    is_recalled: bool,
    /// True if the client will not give it back.
    is_kept: bool,
}

/// What a mount knows.
#[derive(Default)]
struct Known {
    session: Option<Session>,
    connection: Option<Arc<Connection>>,
    /// Number of connections so far.
    connections: u64,
    /// Metaserver that it speaks to.
    at: Address,
    sequences: [u32; SLOTS],
    /// Slots whose last request was sent more than once.
    repeated: [bool; SLOTS],
    /// Last sequence of each slot of the back channel.
    back_sequences: BTreeMap<u32, u32>,
    must_bind: bool,
    must_free: bool,
    /// Opens of each file.
    opens: BTreeMap<Bytes, u32>,
    layouts: BTreeMap<Bytes, Recallable>,
    delegations: BTreeMap<Bytes, Recallable>,
    /// Files whose layout is being asked for.
    asking: BTreeSet<Bytes>,
}

/// One mount of a client.
pub struct Mount {
    address: Address,
    /// Number of the boot: the verifier.
    boot: u64,
    members: u64,
    shared: Arc<Shared>,
    known: Mutex<Known>,
    rng: Mutex<Rng>,
    connecting: tokio::sync::Mutex<()>,
    layouting: tokio::sync::Mutex<()>,
    mounted: Notify,
    recalled: Notify,
    lock_is_free: Notify,
    data_sessions: data_sessions::DataSessions,
}

impl Mount {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    fn within(&self, range: std::ops::RangeInclusive<u64>) -> u64 {
        self.rng.lock().within(range)
    }

    fn below(&self, bound: usize) -> usize {
        self.rng.lock().below(bound)
    }
}

/// Running client machine.
pub struct NfsClient {
    /// Its address.
    pub address: Address,
    /// Time of its next boot, if it is down.
    pub starts_at_ms: u64,
    boots: u64,
    members: u64,
    shared: Arc<Shared>,
    rng: Rng,
    tasks: Vec<AbortHandle>,
    working: Vec<JoinHandle<()>>,
}

impl NfsClient {
    /// A machine that is switched off.
    #[must_use]
    pub fn new(address: Address, members: u64, shared: &Arc<Shared>, rng: Rng) -> Self {
        let (tasks, working) = (vec![], vec![]);
        Self { address, starts_at_ms: 0, boots: 0, members, shared: Arc::clone(shared), rng, tasks, working }
    }

    /// True while it is up.
    #[must_use]
    pub fn runs(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// True if its workers have ended.
    #[must_use]
    pub fn has_finished(&self) -> bool {
        self.working.iter().all(JoinHandle::is_finished)
    }

    /// Boots, within the clients' runtime.
    pub fn start(&mut self) {
        let mount = self.mount();
        let works = |slot| match self.shared.data.is_whole && slot == RECORD_KEEPER {
            true => tokio::spawn(Arc::clone(&mount).keep_records(slot)),
            false => tokio::spawn(Arc::clone(&mount).work(slot)),
        };
        self.working = WORKERS.map(works).into();
        self.tasks.extend(self.working.iter().map(JoinHandle::abort_handle));
    }

    /// Boots to read all records.
    pub fn start_audit(&mut self) {
        let mount = self.mount();
        self.working = vec![tokio::spawn(mount.audit(WORKERS[0]))];
        self.tasks.extend(self.working.iter().map(JoinHandle::abort_handle));
    }

    fn mount(&mut self) -> Arc<Mount> {
        self.boots += 1;
        let mount = Arc::new(Mount {
            address: self.address,
            boot: self.boots,
            members: self.members,
            shared: Arc::clone(&self.shared),
            known: Mutex::default(),
            rng: Mutex::new(self.rng.fork()),
            connecting: tokio::sync::Mutex::default(),
            layouting: tokio::sync::Mutex::default(),
            mounted: Notify::new(),
            recalled: Notify::new(),
            lock_is_free: Notify::new(),
            data_sessions: data_sessions::DataSessions::default(),
        });
        let keeper = tokio::spawn(Arc::clone(&mount).keep());
        let returner = tokio::spawn(Arc::clone(&mount).give_back_recalled());
        self.tasks = vec![keeper.abort_handle(), returner.abort_handle()];
        mount
    }

    /// Loses its power: nobody is told.
    pub fn kill(&mut self) {
        self.shared.streams().go_dark(self.address);
        self.tasks.drain(..).for_each(|task| task.abort());
        self.working.clear();
        let now_ms = self.shared.now_ms();
        let mut claims = self.shared.claims();
        let lives: Vec<Life> =
            claims.renewals.keys().filter(|life| life.0 == self.address).copied().collect();
        lives.into_iter().for_each(|life| claims.end_all(life, now_ms));
    }
}
