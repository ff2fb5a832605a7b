//! One metaserver's machine: a disk, a store, a clock, and, while it runs, a process with a replica.
//!
//! The process is a runtime of its own, with time that stands still until the cluster moves it: so each machine has its
//! own pace, can be held up, and ends at a moment, with all its tasks, as by `kill -9` or a power failure.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use host::{Files, SeededEntropy};
use namespace::{Proposal, Reply, Stamp, Time};
use replica::{
    AnswerFuture, CallFuture, Channel, DiskDelay, Environment, LogRetention, Member as Named, NodeId,
    Observer, Replica, ReplicaConfig, ReplicaStatus, Transport, Unreachable,
};
use tokio::runtime::{Builder, Runtime};

use crate::dice::Dice;
use crate::disk::SimDisk;
use crate::joining::Joining;
use crate::net::{Address, Call, Carried};
use crate::request::carry_out;
use crate::shared::Shared;
use crate::store::SimStore;

/// Small segments of the log, so that they are begun, given up and used again all the time; and little kept of them, so that who
/// was away needs a snapshot. In some scenarios less still.
fn log_sizes(is_short: bool) -> (u64, LogRetention) {
    match is_short {
        false => (16 << 10, LogRetention { always: 32 << 10, for_lagging_members: 64 << 10 }),
        true => (8 << 10, LogRetention { always: 4 << 10, for_lagging_members: 16 << 10 }),
    }
}

/// From the id of a machine's member to that of its next one.
const NEXT_ID: NodeId = 1000;

/// How long the disk takes, at least and at most, in microseconds.
pub type DiskPace = Arc<Mutex<(u64, u64)>>;

/// A machine.
pub struct Member {
    /// Where it is.
    pub address: Address,
    /// Which member it is: at first as its address, another one whenever it begins anew.
    pub id: NodeId,
    /// Which incarnation of the group it is of.
    pub incarnation: u64,
    /// Its disk.
    pub disk: SimDisk,
    /// Its store.
    pub store: Arc<SimStore>,
    /// How slow its disk is.
    pub pace: DiskPace,
    /// Its time of day is so much ahead, in milliseconds.
    pub ahead_ms: Arc<AtomicI64>,
    /// It does nothing until then.
    pub held_until_ms: u64,
    /// For how long it is held up by now.
    pub missed_ms: u64,
    /// It is started again then, if it is down.
    pub starts_at_ms: u64,
    /// How many machines there are.
    machines: u64,
    /// Whether it began anew, and so has to join.
    joins: bool,
    /// The member that it was, until the group goes on without that.
    lost: Arc<Mutex<Option<NodeId>>>,
    shared: Arc<Shared>,
    dice: Dice,
    process: Option<Process>,
}

/// A metaserver that runs.
struct Process {
    runtime: Runtime,
    replica: Arc<Mutex<Option<Replica>>>,
    /// An operator ends it.
    stopping: Arc<AtomicBool>,
    /// It ended, since its member was removed.
    removed: Arc<AtomicBool>,
    /// It belongs, and serves clients.
    joined: Arc<AtomicBool>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The member of a machine as the others know it.
#[must_use]
pub fn named(address: Address) -> Named {
    Named { name: format!("mds{address}"), address: address.to_string(), serves: String::new() }
}

/// An empty disk, and a store on it.
fn empty(id: NodeId, shared: &Arc<Shared>, dice: &mut Dice) -> (SimDisk, Arc<SimStore>) {
    let (bug, incarnation) = (shared.bug, shared.incarnation());
    let disk = SimDisk::new(dice.fork(), bug == Some(crate::Bug::NothingSynced));
    let told = {
        let shared = Arc::clone(shared);
        Box::new(move |held: &crate::store::Pictured| {
            let next = replica::applied_next(held).unwrap_or(0);
            if shared.incarnation() == incarnation {
                shared.history().holds(shared.now_ms(), id, next, held.sum());
            }
        })
    };
    let loses = (bug == Some(crate::Bug::MemberDiffers) && id == 2).then_some(5);
    let store = Arc::new(SimStore::new(disk.clone(), dice.fork(), told, bug, loses));
    (disk, store)
}

impl Member {
    /// A machine that is switched off, one of so many.
    #[must_use]
    pub fn new(address: Address, machines: u64, shared: &Arc<Shared>, mut dice: Dice) -> Self {
        let (disk, store) = empty(address, shared, &mut dice);
        Self {
            address,
            id: address,
            incarnation: shared.incarnation(),
            disk,
            store,
            pace: Arc::new(Mutex::new((50, 500))),
            ahead_ms: Arc::default(),
            held_until_ms: 0,
            missed_ms: 0,
            starts_at_ms: 0,
            machines,
            joins: false,
            lost: Arc::default(),
            shared: Arc::clone(shared),
            dice,
            process: None,
        }
    }

    /// What it has in common with all.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Whether its process runs.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.process.is_some()
    }

    /// Its replica, if it has one that has begun.
    #[must_use]
    pub fn replica(&self) -> Option<Replica> {
        self.process.as_ref().and_then(|process| lock(&process.replica).clone())
    }

    /// How the group stands as its replica sees it, by the machine's own clock: outside its runtime the time is the real one,
    /// and on a busy machine no leader would have been heard of for long.
    #[must_use]
    pub fn status(&self) -> Option<ReplicaStatus> {
        let process = self.process.as_ref()?;
        let _its_time = process.runtime.enter();
        lock(&process.replica).as_ref().map(Replica::status)
    }

    /// Starts the process.
    ///
    /// # Panics
    /// When the machine that all this runs on has no room for a runtime.
    pub fn start(&mut self) {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime without threads and sockets");
        let slot = Arc::new(Mutex::new(None));
        let config = self.config();
        let (shared, store, disk) = (Arc::clone(&self.shared), Arc::clone(&self.store), self.disk.clone());
        let (id, from, stamp, its_slot) = (self.id, self.address, self.stamp(), Arc::clone(&slot));
        let (incarnation, environment) = (self.incarnation, self.environment(stamp.random));
        let stopping = Arc::new(AtomicBool::new(false));
        let is_stopping = Arc::clone(&stopping);
        let removed = Arc::new(AtomicBool::new(false));
        let is_removed = Arc::clone(&removed);
        let joined = Arc::new(AtomicBool::new(!self.joins));
        let joining = self.joins.then(|| self.joining(&joined));
        runtime.spawn(async move {
            let wire = Arc::new(Wire { from, shared: Arc::clone(&shared) });
            let watcher = Arc::new(Watcher { id, incarnation, shared: Arc::clone(&shared) });
            let why = match Replica::open_in(environment, config, store, stamp, wire, watcher).await {
                Ok(replica) => {
                    *lock(&its_slot) = Some(replica.clone());
                    if let Some(joining) = joining {
                        tokio::spawn(joining.run(replica.clone()));
                    }
                    let why = replica.failed().await;
                    if replica.is_removed() {
                        is_removed.store(true, Ordering::Relaxed);
                        return shared.says_removed(incarnation, id);
                    }
                    why
                }
                Err(why) => why.to_string(),
            };
            if !disk.is_dead() && !is_stopping.load(Ordering::Relaxed) {
                shared.broken(incarnation, format!("member {id}: {why}"));
            }
        });
        self.process = Some(Process { runtime, replica: slot, stopping, removed, joined });
    }

    /// What its replica is opened with.
    pub(crate) fn config(&self) -> ReplicaConfig {
        ReplicaConfig {
            dir: PathBuf::from("/"),
            reserve_bytes: 0,
            id: self.id,
            member: named(self.address),
            founds: self.id == 1,
            read_leases: self.shared.leases,
        }
    }

    /// What its replica runs on. `random`: of which the log's secrets are made.
    pub(crate) fn environment(&mut self, random: u64) -> Environment {
        let (files, pace): (Arc<dyn Files>, _) = (Arc::new(self.disk.clone()), self.pace());
        let (segment_bytes, log_retention) = log_sizes(self.shared.short_logs);
        let entropy = Arc::new(SeededEntropy::new(random));
        let time = {
            let (shared, ahead_ms) = (Arc::clone(&self.shared), Arc::clone(&self.ahead_ms));
            Arc::new(move || time_of_day(&shared, ahead_ms.load(Ordering::Relaxed)))
        };
        let (disk_delay, apply) = (Some(pace), namespace::apply);
        Environment { apply, time, files, entropy, segment_bytes, log_retention, disk_delay }
    }

    /// Who writes down what its replica applies.
    pub(crate) fn watcher(&self) -> Arc<Watcher> {
        Arc::new(Watcher { id: self.id, incarnation: self.incarnation, shared: Arc::clone(&self.shared) })
    }

    /// The same machine, with the disk that it has now, at another address.
    pub(crate) fn moved(&mut self, address: Address) -> Self {
        Self {
            address,
            id: self.id,
            incarnation: self.incarnation,
            disk: self.disk.clone(),
            store: Arc::clone(&self.store),
            pace: Arc::clone(&self.pace),
            ahead_ms: Arc::clone(&self.ahead_ms),
            held_until_ms: 0,
            missed_ms: 0,
            starts_at_ms: 0,
            machines: self.machines,
            joins: self.joins,
            lost: Arc::default(),
            shared: Arc::clone(&self.shared),
            dice: self.dice.fork(),
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
            dice: self.dice.fork(),
            done: Arc::clone(done),
        }
    }

    /// Whether its process ended since its member was removed.
    #[must_use]
    pub fn was_removed(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.removed.load(Ordering::Relaxed))
    }

    /// Switches it off, with an empty disk: it comes back as a new member. `is_lost`: the group does not know yet that the
    /// old one is gone for good.
    pub fn begin_anew(&mut self, is_lost: bool) {
        self.kill(false);
        if is_lost {
            *lock(&self.lost) = Some(self.id);
        }
        self.id += NEXT_ID;
        self.incarnation = self.shared.incarnation();
        self.joins = true;
        (self.disk, self.store) = empty(self.id, &self.shared, &mut self.dice);
    }

    /// It has what it needs, and waits for nobody.
    pub(crate) fn belongs(&mut self) {
        self.joins = false;
    }

    /// Ends the process at once. `power`: and what the disk was not made to keep.
    pub fn kill(&mut self, power: bool) {
        if let Some(Process { runtime, replica, .. }) = self.process.take() {
            drop(lock(&replica).take());
            drop(runtime);
        }
        if power {
            self.disk.cut_power();
            self.disk.restart();
        }
        self.missed_ms = 0;
        // What a process had in memory is gone either way.
        self.store.restart();
    }

    /// Stops the process as an operator does.
    pub fn stop(&mut self) {
        self.catch_up();
        if let (Some(replica), Some(process)) = (self.replica(), &self.process) {
            process.stopping.store(true, Ordering::Relaxed);
            process.runtime.block_on(async {
                let _ = tokio::time::timeout(Duration::from_secs(5), replica.stop_tasks()).await;
            });
        }
        self.kill(self.disk.is_dead());
    }

    /// Lets `ms` pass.
    pub fn pass(&self, ms: u64) {
        if let Some(process) = &self.process {
            // Within the runtime: it is its time.
            process.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(ms)).await });
        }
    }

    /// It goes on: to its process it is suddenly later.
    pub fn catch_up(&mut self) {
        let missed = Duration::from_millis(std::mem::take(&mut self.missed_ms));
        if let Some(process) = self.process.as_ref().filter(|_| self.shared.leases && !missed.is_zero()) {
            process.runtime.block_on(tokio::time::advance(missed));
        }
    }

    /// Does something at the member, with its replica.
    pub fn spawn<F: Future<Output = ()> + Send + 'static>(&self, work: impl FnOnce(Replica) -> F) {
        if let (Some(process), Some(replica)) = (&self.process, self.replica()) {
            process.runtime.spawn(work(replica));
        }
    }

    /// Carries out a call. Its answer is not sent when the power is gone meanwhile.
    pub fn take(&mut self, number: u64, call: Call) {
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
                    replica.serve(&body).await.map(Carried::Member).map_err(Unreachable::NoAnswer)
                }
                Call::Client(request) => {
                    Ok(Carried::Client(Box::new(carry_out(&replica, request, stamp, shared.bug).await)))
                }
            };
            if !disk.is_dead() {
                shared.net().answer(number, outcome);
            }
        });
    }

    fn pace(&mut self) -> DiskDelay {
        let (pace, dice) = (Arc::clone(&self.pace), Mutex::new(self.dice.fork()));
        Arc::new(move || {
            let (least, most) = *lock(&pace);
            Duration::from_micros(lock(&dice).within(least..=most))
        })
    }

    /// Its time of day, and some random bits.
    pub(crate) fn stamp(&mut self) -> Stamp {
        let time = time_of_day(&self.shared, self.ahead_ms.load(Ordering::Relaxed));
        Stamp { time, random: self.dice.number() }
    }
}

/// The time of day on a machine whose clock is so much ahead.
fn time_of_day(shared: &Shared, ahead_ms: i64) -> Time {
    let ms = 1_700_000_000_000 + shared.now_ms() as i64 + ahead_ms;
    Time { seconds: ms.div_euclid(1000), nanoseconds: ms.rem_euclid(1000) as u32 * 1_000_000 }
}

/// A member's end of the network.
struct Wire {
    from: Address,
    shared: Arc<Shared>,
}

impl Transport for Wire {
    fn call(&self, to: &Named, channel: Channel, body: Bytes, limit: Duration) -> CallFuture {
        let Ok(to) = to.address.parse() else {
            let why = format!("{} is no address", to.address);
            return Box::pin(async move { Err(Unreachable::NotSent(why)) });
        };
        let (lane, may_come_twice) = match channel {
            Channel::Entries => (0, true),
            Channel::Heartbeats => (1, true),
            // Carried out twice they are an error at the other end; a connection does not repeat anything.
            Channel::Snapshots => (2, false),
            Channel::Requests => (3, false),
        };
        let outcome = self.shared.net().call(self.from, to, lane, may_come_twice, Call::Member(body));
        Box::pin(async move {
            match tokio::time::timeout(limit, outcome).await {
                Ok(Ok(Ok(Carried::Member(answer)))) => Ok(answer),
                Ok(Ok(Err(why))) => Err(why),
                Ok(Ok(Ok(Carried::Client(_))) | Err(_)) => Err(Unreachable::NoAnswer("no answer".into())),
                Err(_) => Err(Unreachable::NoAnswer("no answer in time".into())),
            }
        })
    }
}

/// Writes down what a member applies.
pub(crate) struct Watcher {
    id: Address,
    incarnation: u64,
    shared: Arc<Shared>,
}

impl Observer for Watcher {
    fn applied(&self, index: u64, proposal: &Proposal, reply: &Reply) {
        if self.incarnation != self.shared.incarnation() {
            return;
        }
        self.shared.history().applied(self.shared.now_ms(), self.id, index, proposal, reply);
    }

    fn replaced(&self) {
        self.shared.note(|| format!("member {} has a snapshot", self.id));
    }

    fn answer_peer(&self, question: Bytes) -> AnswerFuture {
        Box::pin(std::future::ready(question))
    }
}
