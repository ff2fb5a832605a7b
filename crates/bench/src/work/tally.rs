//! State shared by the workers of a machine in a phase: the common start, the stonewall, what was done so
//! far, and the end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Progress of a phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Bytes moved.
    pub bytes: u64,
    /// Records, or operations on names.
    pub operations: u64,
}

/// How far the workers of a machine are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// At work.
    Working,
    /// All have said how many of their records or names were done when the stonewall's time was over, and
    /// wait to hear how far to go; the greatest of these numbers.
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
    /// Who has said how far they are, and how far the furthest was.
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
        // With the lock held, so that nobody misses it between looking and waiting.
        drop(self.gate());
        self.changed.notify_all();
    }

    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The common start, waited for; `None`: there will be none.
    pub fn ready(&self) -> Option<Instant> {
        self.change(|gate| gate.ready += 1);
        let gate = self.changed.wait_while(self.gate(), |gate| gate.start.is_none());
        let start = gate.unwrap_or_else(PoisonError::into_inner).start;
        let Some(Start::At(start)) = start else { return None };
        thread::sleep(start.saturating_duration_since(Instant::now()));
        Some(start)
    }

    /// Whether all `workers` are ready, waited for; otherwise some ended before.
    pub fn all_ready(&self, workers: usize) -> bool {
        let gate = self.changed.wait_while(self.gate(), |gate| gate.ready + gate.ended < workers);
        gate.unwrap_or_else(PoisonError::into_inner).ready == workers
    }

    pub fn start(&self, at: Instant) {
        self.change(|gate| gate.start = Some(Start::At(at)));
    }

    pub fn dismiss(&self) {
        self.change(|gate| gate.start = Some(Start::Never));
    }

    /// One worker says how many it did; each says it once.
    pub fn say(&self, done: u64) {
        self.change(|gate| {
            gate.said += 1;
            gate.furthest = gate.furthest.max(done);
        });
    }

    /// How many each is to do, waited for; `None` when all are to stop.
    pub fn goal(&self) -> Option<u64> {
        let gate = self.changed.wait_while(self.gate(), |gate| gate.goal.is_none() && !self.stopped());
        gate.unwrap_or_else(PoisonError::into_inner).goal
    }

    pub fn set_goal(&self, goal: u64) {
        self.change(|gate| gate.goal = Some(goal));
    }

    pub fn ended(&self) {
        self.change(|gate| gate.ended += 1);
    }

    /// How far all `workers` are, when that has changed, or after a while.
    pub fn stage(&self, workers: usize, at_most: Duration) -> Stage {
        let stage = |gate: &Gate| match gate {
            Gate { ended, .. } if *ended == workers => Stage::Ended,
            Gate { said, goal: None, furthest, .. } if *said == workers => Stage::AtTheWall(*furthest),
            _ => Stage::Working,
        };
        let waited =
            self.changed.wait_timeout_while(self.gate(), at_most, |gate| stage(gate) == Stage::Working);
        stage(&waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    fn change(&self, change: impl FnOnce(&mut Gate)) {
        change(&mut self.gate());
        self.changed.notify_all();
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
