//! Turn of one worker in a phase: whether to continue, and its results.

use std::time::Instant;

use crate::phase::{Done, Limit, Then};
use crate::work::tally::Tally;

/// Turn of one worker.
pub struct Turn<'a> {
    tally: &'a Tally,
    start: Instant,
    limit: Option<Limit>,
    /// Common goal, after the stonewall's time.
    goal: Option<u64>,
    asked: Instant,
    done: Done,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(tally: &'a Tally, start: Instant, limit: Option<Limit>) -> Self {
        Self { tally, start, limit, goal: None, asked: start, done: Done::default() }
    }

    /// True if the worker must do the next record or name, whose latency counts from here to [`Turn::did`].
    pub fn goes_on(&mut self) -> bool {
        self.asked = Instant::now();
        let in_time = |limit: &Limit| self.asked < self.start + limit.after;
        let on = match self.limit {
            _ if self.tally.stopped() => false,
            None => true,
            Some(limit) if limit.then == Then::Stop => in_time(&limit),
            Some(limit) => match self.goal {
                None if in_time(&limit) => return true,
                Some(goal) => return self.done.operations < goal,
                None => {
                    self.tally.say(self.done.operations);
                    let goal = self.tally.goal();
                    self.goal = goal.or(Some(0));
                    self.asked = Instant::now();
                    match goal {
                        Some(goal) => return self.done.operations < goal,
                        None => false,
                    }
                }
            },
        };
        self.done.stopped |= !on;
        on
    }

    /// Counts one record or name with `bytes`.
    pub fn did(&mut self, bytes: u64) {
        self.did_many(1, bytes);
    }

    /// Counts several operations of one request, such as a listing.
    pub fn did_many(&mut self, operations: u64, bytes: u64) {
        self.done.latencies.add(self.asked.elapsed());
        self.done.bytes += bytes;
        self.done.operations += operations;
        self.tally.did(operations, bytes);
    }

    /// Counts verified bytes.
    pub fn verified(&mut self, bytes: u64) {
        self.done.verified_bytes += bytes;
    }

    /// Counts a name that a walk found.
    pub fn found(&mut self) {
        self.done.found += 1;
    }

    /// Ends the task.
    pub(crate) fn end(mut self) -> Done {
        self.done.seconds = self.start.elapsed().as_secs_f64();
        if self.goal.is_none() {
            self.tally.say(self.done.operations);
        }
        self.done
    }
}
