//! State shared by members, clients and faults: time, network and history.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use replica::NodeId;

use crate::bug::Bug;
use crate::claims::{Calm, Claims};
use crate::data_scenario::DataScenario;
use crate::history::History;
use crate::membership::MembershipScenario;
use crate::net::Net;
use crate::records::Records;
use crate::restore::Backup;
use crate::rng::Rng;
use crate::scenario::{Kind, Scenario};
use crate::streams::Streams;

/// Difference of the seeds of streams and of everything else.
const STREAMS: u64 = 0x5354_5245_414d_5300;

/// Findings about tables that are enough.
const TABLE_FINDINGS_MAX: usize = 5;

/// Shared state of one cluster. All of it runs on one thread; the compiler demands the locks.
pub struct Shared {
    now_ms: AtomicU64,
    ending: AtomicBool,
    net: Mutex<Net>,
    streams: Mutex<Streams>,
    history: Mutex<History>,
    claims: Mutex<Claims>,
    records: Mutex<Records>,
    calm: Mutex<Vec<Calm>>,
    /// Index up to which tables were judged, and the findings.
    tables: Mutex<(u64, Vec<String>)>,
    failures: Mutex<Vec<String>>,
    to_go: Mutex<BTreeSet<NodeId>>,
    incarnation: AtomicU64,
    backup: Mutex<Option<Backup>>,
    /// True if members are metaservers, with NFS clients and data servers.
    pub serves: bool,
    /// Data servers of the scenario.
    pub data: DataScenario,
    /// True if NFS clients hold locks and layouts for longer, and truncate more.
    pub clients_linger: bool,
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
    pub fn new(net: Net, history: History, scenario: &Scenario) -> Self {
        let Scenario { seed, bug, kind, .. } = *scenario;
        let serves = kind != Kind::Replicas;
        Self {
            now_ms: AtomicU64::new(0),
            ending: AtomicBool::new(false),
            net: Mutex::new(net),
            // Of its own, so that scenarios without streams stay as they are.
            streams: Mutex::new(Streams::new(Rng::new(seed ^ STREAMS))),
            history: Mutex::new(history),
            claims: Mutex::default(),
            records: Mutex::default(),
            calm: Mutex::default(),
            tables: Mutex::default(),
            failures: Mutex::default(),
            to_go: Mutex::default(),
            incarnation: AtomicU64::new(1),
            backup: Mutex::default(),
            restores: seed % 10 == 7 && !serves,
            serves,
            data: DataScenario::from_seed(seed, kind),
            clients_linger: seed % 2 == 1,
            bug,
            leases: !seed.is_multiple_of(4),
            short_logs: seed % 7 == 4 && !serves,
            membership: if serves { MembershipScenario::Stays } else { MembershipScenario::from_seed(seed) },
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
        self.net.lock()
    }

    /// The streams.
    pub fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock()
    }

    /// The history so far.
    pub fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock()
    }

    /// What NFS clients know.
    pub fn claims(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock()
    }

    /// Records of NFS clients.
    pub fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock()
    }

    /// Notes a time without faults.
    pub fn note_calm(&self, calm: Calm) {
        self.calm.lock().push(calm);
    }

    /// Judges the tables of a store in which all entries below `next` are applied, unless they were judged.
    pub fn judge_tables(&self, next: u64, judge: impl FnOnce() -> Vec<String>) {
        let mut tables = self.tables.lock();
        if next > tables.0 && tables.1.len() < TABLE_FINDINGS_MAX {
            let found = judge().into_iter().map(|what| format!("below {next} {what}"));
            tables.1.extend(found);
            tables.0 = next;
        }
    }

    /// Findings about tables.
    pub fn table_findings(&self) -> Vec<String> {
        self.tables.lock().1.clone()
    }

    /// Times without faults.
    pub fn calm(&self) -> Vec<Calm> {
        self.calm.lock().clone()
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
        self.failures.lock().push(what);
    }

    /// Members that failed without a cause.
    pub fn failures(&self) -> Vec<String> {
        self.failures.lock().clone()
    }

    /// Notes that a removal of this member was requested.
    pub fn note_removal_request(&self, id: NodeId) {
        self.to_go.lock().insert(id);
    }

    /// Notes that a member stopped because it was removed.
    pub fn note_removed(&self, incarnation: u64, id: NodeId) {
        self.note(|| format!("member {id} was removed"));
        if !self.to_go.lock().contains(&id) {
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
        self.backup.lock()
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
