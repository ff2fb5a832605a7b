//! State shared by the workers of a machine in a phase: the common start, the stonewall, the progress, and
//! the end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

/// Progress of a phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Bytes moved.
    pub bytes: u64,
    /// Records, or operations on names.
    pub operations: u64,
}

/// Stage of the workers of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Running.
    Working,
    /// All workers have reported their number of records or names at the stonewall's time, and wait for the
    /// common goal; has the maximum of these numbers.
    AtTheWall(u64),
    /// All have ended.
    Ended,
}

/// State shared by the workers of a machine in a phase.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    stop: AtomicBool,
    bytes: AtomicU64,
    operations: AtomicU64,
    gate: Mutex<Gate>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Gate {
    ready: usize,
    ended: usize,
    start: Option<Start>,
    /// Number of workers that have reported at the stonewall, and the maximum.
    said: usize,
    furthest: u64,
    goal: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
enum Start {
    At(Instant),
    Never,
}

impl Tally {
    pub fn did(&self, operations: u64, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.operations.fetch_add(operations, Ordering::Relaxed);
    }

    pub fn progress(&self) -> Progress {
        Progress {
            bytes: self.bytes.load(Ordering::Relaxed),
            operations: self.operations.load(Ordering::Relaxed),
        }
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        // Take the lock once, so that no waiter misses the change between its check and its wait.
        drop(self.gate());
        self.changed.notify_all();
    }

    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Waits for the common start; `None`: there will be none.
    pub fn ready(&self) -> Option<Instant> {
        self.change(|gate| gate.ready += 1);
        let mut gate = self.gate();
        self.changed.wait_while(&mut gate, |gate| gate.start.is_none());
        let start = gate.start;
        drop(gate);
        let Some(Start::At(start)) = start else { return None };
        thread::sleep(start.saturating_duration_since(Instant::now()));
        Some(start)
    }

    /// Waits until all `workers` are ready; false if some ended before.
    pub fn all_ready(&self, workers: usize) -> bool {
        let mut gate = self.gate();
        self.changed.wait_while(&mut gate, |gate| gate.ready + gate.ended < workers);
        gate.ready == workers
    }

    pub fn start(&self, at: Instant) {
        self.change(|gate| gate.start = Some(Start::At(at)));
    }

    pub fn dismiss(&self) {
        self.change(|gate| gate.start = Some(Start::Never));
    }

    /// Reports a worker's count at the stonewall, once for each worker.
    pub fn say(&self, done: u64) {
        self.change(|gate| {
            gate.said += 1;
            gate.furthest = gate.furthest.max(done);
        });
    }

    /// Waits for the common goal; `None` after a stop.
    pub fn goal(&self) -> Option<u64> {
        let mut gate = self.gate();
        self.changed.wait_while(&mut gate, |gate| gate.goal.is_none() && !self.stopped());
        gate.goal
    }

    pub fn set_goal(&self, goal: u64) {
        self.change(|gate| gate.goal = Some(goal));
    }

    pub fn ended(&self) {
        self.change(|gate| gate.ended += 1);
    }

    /// Stage of all `workers`, after a change or after `at_most`.
    pub fn stage(&self, workers: usize, at_most: Duration) -> Stage {
        let stage = |gate: &Gate| match gate {
            Gate { ended, .. } if *ended == workers => Stage::Ended,
            Gate { said, goal: None, furthest, .. } if *said == workers => Stage::AtTheWall(*furthest),
            _ => Stage::Working,
        };
        let mut gate = self.gate();
        self.changed.wait_while_for(&mut gate, |gate| stage(gate) == Stage::Working, at_most);
        stage(&gate)
    }

    fn change(&self, change: impl FnOnce(&mut Gate)) {
        change(&mut self.gate());
        self.changed.notify_all();
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock()
    }
}
