//! Machine of one metaserver: a disk, a store, a clock, and, while it runs, a process with a replica.
//!
//! The process is a runtime of its own, whose time stands still until the cluster moves it. So each machine
//! has its own pace, can be stalled, and ends at one moment with all its tasks, as by `kill -9` or a power
//! failure.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use host::{Files, SeededEntropy};
use namespace::{Stamp, Time};
use parking_lot::Mutex;
use replica::{
    DiskDelay, Environment, LogRetention, Member as ReplicaMember, NodeId, Observer, Replica, ReplicaConfig,
    ReplicaStatus, Unreachable,
};
use tokio::runtime::{Builder, Runtime};

use crate::disk::SimDisk;
use crate::joining::Joining;
use crate::net::{Address, Call, CallAnswer};
use crate::oracles;
use crate::request::execute;
use crate::rng::Rng;
use crate::service::{Place, Service, ServiceObserver};
use crate::shared::Shared;
use crate::store::SimStore;
use crate::wires::{HistoryObserver, SimTransport};

/// Length of segments and retention of the log. Both are small, so that segments are created, purged and
/// reused often, and a member that was away needs a snapshot. In some scenarios they are smaller still.
fn log_sizes(is_short: bool) -> (u64, LogRetention) {
    match is_short {
        false => (16 << 10, LogRetention { always: 32 << 10, for_lagging_members: 64 << 10 }),
        true => (8 << 10, LogRetention { always: 4 << 10, for_lagging_members: 16 << 10 }),
    }
}

/// Difference of the random bits of a metaserver and of its replica.
const SERVICE: u64 = 0x6d64_7300;

/// Step from the id of a machine's member to that of its next one.
const NEXT_ID: NodeId = 1000;

/// Least and greatest delay of a disk operation, in microseconds.
pub type DiskPace = Arc<Mutex<(u64, u64)>>;

/// Simulated machine.
pub struct Member {
    /// Address of the machine.
    pub address: Address,
    /// Id of its member: first its address, another one after each loss of the disk.
    pub id: NodeId,
    /// Incarnation of the group that its member belongs to.
    pub incarnation: u64,
    /// Disk of the machine.
    pub disk: SimDisk,
    /// Store of its replica.
    pub store: Arc<SimStore>,
    /// Delay of its disk.
    pub pace: DiskPace,
    /// Offset of its time of day, in milliseconds.
    pub clock_offset_ms: Arc<AtomicI64>,
    /// End of the stall of its process.
    pub stalled_until_ms: u64,
    /// Length of the stall so far.
    pub missed_ms: u64,
    /// Time of its next start, if it is down.
    pub starts_at_ms: u64,
    /// Number of machines.
    machines: u64,
    /// True if it has an empty disk, and so has to join.
    joins: bool,
    /// Id of its lost member, until that is removed from the group.
    lost: Arc<Mutex<Option<NodeId>>>,
    shared: Arc<Shared>,
    rng: Rng,
    process: Option<Process>,
}

/// Running metaserver.
struct Process {
    runtime: Runtime,
    replica: Arc<Mutex<Option<Replica>>>,
    /// Metaserver, once it serves.
    service: Arc<Mutex<Option<Service>>>,
    /// Set when an operator stops the process.
    stopping: Arc<AtomicBool>,
    /// Set when it ended because its member was removed.
    removed: Arc<AtomicBool>,
    /// Set when it is a member, and serves clients.
    joined: Arc<AtomicBool>,
}

/// Member at this address, as the others know it.
#[must_use]
pub fn replica_member(address: Address) -> ReplicaMember {
    ReplicaMember { name: format!("mds{address}"), address: address.to_string(), serves: String::new() }
}

/// Creates an empty disk, and a store on it.
fn empty(id: NodeId, shared: &Arc<Shared>, rng: &mut Rng) -> (SimDisk, Arc<SimStore>) {
    let (bug, incarnation) = (shared.bug, shared.incarnation());
    let disk = SimDisk::new(rng.fork(), bug == Some(crate::Bug::NothingSynced));
    let observer = {
        let shared = Arc::clone(shared);
        Box::new(move |held: &crate::store::StoreImage| {
            let next = replica::applied_next(held).unwrap_or(0);
            if shared.incarnation() == incarnation {
                shared.history().note_store(shared.now_ms(), id, next, held.sum());
                if shared.serves {
                    shared.judge_tables(next, || oracles::judge_tables(&held.unhidden()));
                }
            }
        })
    };
    let loses = (bug == Some(crate::Bug::MemberDiffers) && id == 2).then_some(5);
    let store = Arc::new(SimStore::new(disk.clone(), rng.fork(), observer, bug, loses));
    (disk, store)
}

impl Member {
    /// Creates a machine that is switched off, one of `machines`.
    #[must_use]
    pub fn new(address: Address, machines: u64, shared: &Arc<Shared>, mut rng: Rng) -> Self {
        let (disk, store) = empty(address, shared, &mut rng);
        Self {
            address,
            id: address,
            incarnation: shared.incarnation(),
            disk,
            store,
            pace: Arc::new(Mutex::new((50, 500))),
            clock_offset_ms: Arc::default(),
            stalled_until_ms: 0,
            missed_ms: 0,
            starts_at_ms: 0,
            machines,
            joins: false,
            lost: Arc::default(),
            shared: Arc::clone(shared),
            rng,
            process: None,
        }
    }

    /// State shared by all machines.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// True if its process runs.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.process.is_some()
    }

    /// Its replica, if it has one that has opened.
    #[must_use]
    pub fn replica(&self) -> Option<Replica> {
        self.process.as_ref().and_then(|process| process.replica.lock().clone())
    }

    /// Its metaserver, once it serves.
    #[must_use]
    pub fn metaserver(&self) -> Option<Arc<metaserver::Metaserver>> {
        let process = self.process.as_ref()?;
        process.service.lock().as_ref().map(|service| Arc::clone(&service.metaserver))
    }

    /// Status of its replica, by the machine's own clock: outside its runtime time is real, and on a busy
    /// host the last contact with the leader would seem long ago.
    #[must_use]
    pub fn status(&self) -> Option<ReplicaStatus> {
        let process = self.process.as_ref()?;
        let _its_time = process.runtime.enter();
        process.replica.lock().as_ref().map(Replica::status)
    }

    /// Starts the process.
    ///
    /// # Panics When the host cannot create a runtime.
    pub fn start(&mut self) {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime without threads and sockets");
        let slot = Arc::new(Mutex::new(None));
        let config = self.config();
        let (shared, store, disk) = (Arc::clone(&self.shared), Arc::clone(&self.store), self.disk.clone());
        let (id, from, stamp, its_slot) = (self.id, self.address, self.stamp(), Arc::clone(&slot));
        let (incarnation, environment) = (self.incarnation, self.environment(stamp.random));
        let service = Arc::new(Mutex::new(None));
        let its_service = Arc::clone(&service);
        let place = Place {
            address: self.address,
            id: self.id,
            shared: Arc::clone(&self.shared),
            clock_offset_ms: Arc::clone(&self.clock_offset_ms),
            disk: self.disk.clone(),
            random: stamp.random ^ SERVICE,
        };
        let stopping = Arc::new(AtomicBool::new(false));
        let is_stopping = Arc::clone(&stopping);
        let removed = Arc::new(AtomicBool::new(false));
        let is_removed = Arc::clone(&removed);
        let joined = Arc::new(AtomicBool::new(!self.joins));
        let joining = self.joins.then(|| self.joining(&joined));
        runtime.spawn(async move {
            let wire = Arc::new(SimTransport { from, shared: Arc::clone(&shared) });
            let history = HistoryObserver { id, incarnation, shared: Arc::clone(&shared) };
            let (upcalls, follower) = metaserver::upcalls();
            let observer: Arc<dyn Observer> = match shared.serves {
                true => Arc::new(ServiceObserver { history, upcalls }),
                false => Arc::new(history),
            };
            let why = match Replica::open_in(environment, config, store, stamp, wire, observer).await {
                Ok(replica) => {
                    *its_slot.lock() = Some(replica.clone());
                    if shared.serves {
                        tokio::spawn(place.run(replica.clone(), follower, its_service));
                    }
                    if let Some(joining) = joining {
                        tokio::spawn(joining.run(replica.clone()));
                    }
                    let why = replica.failed().await;
                    if replica.is_removed() {
                        is_removed.store(true, Ordering::Relaxed);
                        return shared.note_removed(incarnation, id);
                    }
                    why
                }
                Err(why) => why.to_string(),
            };
            if !disk.is_dead() && !is_stopping.load(Ordering::Relaxed) {
                shared.report_failure(incarnation, format!("member {id}: {why}"));
            }
        });
        self.process = Some(Process { runtime, replica: slot, service, stopping, removed, joined });
    }

    /// Configuration of its replica.
    pub(crate) fn config(&self) -> ReplicaConfig {
        ReplicaConfig {
            dir: PathBuf::from("/"),
            reserve_bytes: 0,
            id: self.id,
            member: replica_member(self.address),
            founds: self.id == 1,
            read_leases: self.shared.leases,
        }
    }

    /// Environment of its replica. `random`: the source of the log's salts.
    pub(crate) fn environment(&mut self, random: u64) -> Environment {
        let (files, pace): (Arc<dyn Files>, _) = (Arc::new(self.disk.clone()), self.pace());
        let (segment_bytes, log_retention) = log_sizes(self.shared.short_logs);
        let entropy = Arc::new(SeededEntropy::new(random));
        let time = {
            let (shared, clock_offset_ms) = (Arc::clone(&self.shared), Arc::clone(&self.clock_offset_ms));
            Arc::new(move || time_of_day(&shared, clock_offset_ms.load(Ordering::Relaxed)))
        };
        let plan = match self.shared.bug {
            Some(crate::Bug::LocksDenied) => crate::bug::plan_denying_locks,
            _ => namespace::plan,
        };
        let disk_delay = Some(pace);
        Environment { plan, time, files, entropy, segment_bytes, log_retention, disk_delay }
    }

    /// Observer that notes the commands that its replica applies.
    pub(crate) fn observer(&self) -> Arc<HistoryObserver> {
        Arc::new(HistoryObserver {
            id: self.id,
            incarnation: self.incarnation,
            shared: Arc::clone(&self.shared),
        })
    }

    /// A copy of this machine, with its current disk, at another address.
    pub(crate) fn moved(&mut self, address: Address) -> Self {
        Self {
            address,
            id: self.id,
            incarnation: self.incarnation,
            disk: self.disk.clone(),
            store: Arc::clone(&self.store),
            pace: Arc::clone(&self.pace),
            clock_offset_ms: Arc::clone(&self.clock_offset_ms),
            stalled_until_ms: 0,
            missed_ms: 0,
            starts_at_ms: 0,
            machines: self.machines,
            joins: self.joins,
            lost: Arc::default(),
            shared: Arc::clone(&self.shared),
            rng: self.rng.fork(),
            process: None,
        }
    }

    fn joining(&mut self, done: &Arc<AtomicBool>) -> Joining {
        Joining {
            address: self.address,
            id: self.id,
            lost: Arc::clone(&self.lost),
            machines: self.machines,
            shared: Arc::clone(&self.shared),
            rng: self.rng.fork(),
            done: Arc::clone(done),
        }
    }

    /// True if its process ended because its member was removed.
    #[must_use]
    pub fn was_removed(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.removed.load(Ordering::Relaxed))
    }

    /// Switches the machine off and empties its disk: it returns as a new member. `is_lost`: the group must
    /// still remove the old member.
    pub fn replace_disk(&mut self, is_lost: bool) {
        self.kill(false);
        if is_lost {
            *self.lost.lock() = Some(self.id);
        }
        self.id += NEXT_ID;
        self.incarnation = self.shared.incarnation();
        self.joins = true;
        (self.disk, self.store) = empty(self.id, &self.shared, &mut self.rng);
    }

    /// Notes that its member needs no join.
    pub(crate) fn mark_joined(&mut self) {
        self.joins = false;
    }

    /// Ends the process at once. `power`: the disk also loses its unsynced writes.
    pub fn kill(&mut self, power: bool) {
        if power {
            self.shared.streams().go_dark(self.address);
        }
        if let Some(Process { runtime, replica, service, .. }) = self.process.take() {
            // Its streams and tasks end within the runtime that they belong to.
            let its_runtime = runtime.enter();
            drop(service.lock().take());
            drop(its_runtime);
            drop(replica.lock().take());
            drop(runtime);
        }
        if power {
            self.disk.cut_power();
            self.disk.restart();
        }
        self.missed_ms = 0;
        // The memory of the process is lost in both cases.
        self.store.restart();
    }

    /// Stops the process as an operator does.
    pub fn stop(&mut self) {
        self.catch_up();
        if let (Some(replica), Some(process)) = (self.replica(), &self.process) {
            process.stopping.store(true, Ordering::Relaxed);
            let service = process.service.lock().take();
            process.runtime.block_on(async {
                if let Some(Service { server, metaserver }) = service {
                    metaserver.stop();
                    server.stop();
                }
                let _ = tokio::time::timeout(Duration::from_secs(5), replica.stop_tasks()).await;
            });
        }
        self.kill(self.disk.is_dead());
    }

    /// Lets `ms` pass.
    pub fn advance(&self, ms: u64) {
        if let Some(process) = &self.process {
            // Within the runtime, whose time it is.
            process.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(ms)).await });
        }
    }

    /// Ends a stall: for its process the missed time passes at once.
    pub fn catch_up(&mut self) {
        let missed = Duration::from_millis(std::mem::take(&mut self.missed_ms));
        if let Some(process) = self.process.as_ref().filter(|_| self.shared.leases && !missed.is_zero()) {
            process.runtime.block_on(tokio::time::advance(missed));
        }
    }

    /// Spawns work on the member, with its replica.
    pub fn spawn<F: Future<Output = ()> + Send + 'static>(&self, work: impl FnOnce(Replica) -> F) {
        if let (Some(process), Some(replica)) = (&self.process, self.replica()) {
            process.runtime.spawn(work(replica));
        }
    }

    /// Carries out a call. The answer is lost if the power fails meanwhile.
    pub fn handle_call(&mut self, number: u64, call: Call) {
        let Some(replica) = self.replica().filter(|_| !self.disk.is_dead()) else {
            let why = Unreachable::NotSent("connection refused".into());
            return self.shared.net().answer(number, Err(why));
        };
        let has_joined = self.process.as_ref().is_some_and(|process| process.joined.load(Ordering::Relaxed));
        if !has_joined && matches!(call, Call::Client(_)) {
            let why = Unreachable::NotSent("connection refused".into());
            return self.shared.net().answer(number, Err(why));
        }
        let (shared, disk, stamp) = (Arc::clone(&self.shared), self.disk.clone(), self.stamp());
        self.spawn(move |_| async move {
            let outcome = match call {
                Call::Member(body) => {
                    replica.serve(&body).await.map(CallAnswer::Member).map_err(Unreachable::NoAnswer)
                }
                Call::Client(request) => {
                    Ok(CallAnswer::Client(Box::new(execute(&replica, request, stamp, shared.bug).await)))
                }
            };
            if !disk.is_dead() {
                shared.net().answer(number, outcome);
            }
        });
    }

    fn pace(&mut self) -> DiskDelay {
        let (pace, rng) = (Arc::clone(&self.pace), Mutex::new(self.rng.fork()));
        Arc::new(move || {
            let (least, most) = *pace.lock();
            Duration::from_micros(rng.lock().within(least..=most))
        })
    }

    /// Its time of day, and random bits.
    pub(crate) fn stamp(&mut self) -> Stamp {
        let time = time_of_day(&self.shared, self.clock_offset_ms.load(Ordering::Relaxed));
        Stamp { time, random: self.rng.number() }
    }
}

/// Time of day with this offset.
pub(crate) fn time_of_day(shared: &Shared, clock_offset_ms: i64) -> Time {
    let ms = 1_700_000_000_000 + shared.now_ms() as i64 + clock_offset_ms;
    Time { seconds: ms.div_euclid(1000), nanoseconds: ms.rem_euclid(1000) as u32 * 1_000_000 }
}
