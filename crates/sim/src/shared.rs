//! State shared by members, clients and faults: time, network and history.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use replica::NodeId;

use crate::bug::Bug;
use crate::history::History;
use crate::membership::MembershipScenario;
use crate::net::Net;
use crate::restore::Backup;

/// Shared state of one cluster. All of it runs on one thread; the compiler demands the locks.
pub struct Shared {
    now_ms: AtomicU64,
    ending: AtomicBool,
    net: Mutex<Net>,
    history: Mutex<History>,
    failures: Mutex<Vec<String>>,
    to_go: Mutex<BTreeSet<NodeId>>,
    incarnation: AtomicU64,
    backup: Mutex<Option<Backup>>,
    /// True if a backup is taken and the group restored from it.
    pub restores: bool,
    /// Seeded bug.
    pub bug: Option<Bug>,
    /// True if members use read leases. If not, a stalled member is a machine whose clock stops meanwhile.
    pub leases: bool,
    /// True if logs are short and clients busy, so that segments are reused and members need snapshots.
    pub short_logs: bool,
    /// MembershipScenario changes of the scenario.
    pub membership: MembershipScenario,
}

impl Shared {
    /// State at the beginning.
    #[must_use]
    pub fn new(net: Net, history: History, bug: Option<Bug>, seed: u64) -> Self {
        Self {
            now_ms: AtomicU64::new(0),
            ending: AtomicBool::new(false),
            net: Mutex::new(net),
            history: Mutex::new(history),
            failures: Mutex::default(),
            to_go: Mutex::default(),
            incarnation: AtomicU64::new(1),
            backup: Mutex::default(),
            restores: seed % 10 == 7,
            bug,
            leases: !seed.is_multiple_of(4),
            short_logs: seed % 7 == 4,
            membership: MembershipScenario::from_seed(seed),
        }
    }

    /// Milliseconds since the beginning.
    pub fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn advance(&self, ms: u64) -> u64 {
        self.now_ms.fetch_add(ms, Ordering::Relaxed) + ms
    }

    /// The network.
    pub fn net(&self) -> MutexGuard<'_, Net> {
        self.net.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The history so far.
    pub fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an event.
    pub fn note(&self, what: impl FnOnce() -> String) {
        self.history().note(self.now_ms(), what);
    }

    /// Notes that a member of this incarnation failed without a cause.
    pub fn report_failure(&self, incarnation: u64, what: String) {
        if incarnation != self.incarnation() {
            return;
        }
        self.note(|| what.clone());
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }

    /// Members that failed without a cause.
    pub fn failures(&self) -> Vec<String> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes that a removal of this member was requested.
    pub fn note_removal_request(&self, id: NodeId) {
        self.to_go.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
    }

    /// Notes that a member stopped because it was removed.
    pub fn note_removed(&self, incarnation: u64, id: NodeId) {
        self.note(|| format!("member {id} was removed"));
        if !self.to_go.lock().unwrap_or_else(PoisonError::into_inner).contains(&id) {
            self.report_failure(
                incarnation,
                format!("member {id} stopped as one that was removed, and nobody asked for that"),
            );
        }
    }

    /// Number of the group's incarnation: 1, and one more for each restore.
    pub fn incarnation(&self) -> u64 {
        self.incarnation.load(Ordering::Relaxed)
    }

    /// Begins the next incarnation.
    pub fn begin_incarnation(&self) {
        self.incarnation.fetch_add(1, Ordering::Relaxed);
    }

    /// The last backup.
    pub fn backup(&self) -> MutexGuard<'_, Option<Backup>> {
        self.backup.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells clients to finish their requests and begin no more.
    pub fn begin_ending(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }

    /// True if clients are to finish.
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }
}
