//! The workers of one machine in one phase: a thread for each, got ready, started together, waited for.
//!
//! ```text
//! Crew::prepare   each thread: files opened ── ready ──┐
//! start(at)                                            └─▶ all go at `at` ─▶ work ─▶ done
//! wait(a little), progress(), stop()     ... until wait says that all have ended
//! go_on_to(n)                            ... when wait says that all are at the stonewall
//! end()                                  ◀── AgentDone
//! ```
//!
//! One process with threads stands for a machine with processes: to a file system they look the same, each
//! with an open file of its own.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::phase::{AgentDone, Done, Phase};
use crate::result::Cache;
use crate::target::Target;
use crate::task::Task;
use crate::trouble::Trouble;
use crate::work::tally::Tally;
use crate::work::{self, Progress, Stage, Turn};

const FORGETTING: &str = "drop what this machine has cached of names and small files, which only root may (--warm \
                          measures with it)";

/// Workers that are ready, or at work.
pub struct Crew {
    tally: Arc<Tally>,
    threads: Vec<JoinHandle<Result<Done, Trouble>>>,
    target: Arc<dyn Target>,
    fetched_before: Option<u64>,
}

impl Crew {
    /// A thread for each task of agent `agent`; returns when all are ready.
    ///
    /// # Errors
    /// Trouble of the first worker that did not get ready.
    pub fn prepare(phase: &Phase, agent: usize, target: &Arc<dyn Target>) -> Result<Self, Trouble> {
        let tasks = phase.tasks.get(agent).cloned().unwrap_or_default();
        if phase.cache == Cache::Dropped && tasks.iter().any(Task::looks_at_names) {
            target.forget_names().map_err(|e| Trouble::io(FORGETTING, &e))?;
        }
        let phase = Arc::new(phase.clone());
        let mut crew = Self {
            tally: Arc::default(),
            threads: Vec::with_capacity(tasks.len()),
            target: target.clone(),
            fetched_before: None,
        };
        for task in tasks {
            let (phase, target, tally) = (phase.clone(), target.clone(), crew.tally.clone());
            let worker = move || work(&task, &phase, &target, &tally);
            match thread::Builder::new().name(format!("worker {}", crew.threads.len())).spawn(worker) {
                Ok(thread) => crew.threads.push(thread),
                Err(e) => {
                    crew.dismiss();
                    return Err(Trouble::io("start a thread for each worker", &e));
                }
            }
        }
        if crew.tally.all_ready(crew.threads.len()) {
            crew.fetched_before = crew.target.fetched_bytes();
            return Ok(crew);
        }
        Err(crew.dismiss())
    }

    /// All go, at that moment.
    pub fn start(&self, at: Instant) {
        self.tally.start(at);
    }

    /// How far all are; waits until that has changed, but no longer than `at_most`.
    #[must_use]
    pub fn wait(&self, at_most: Duration) -> Stage {
        self.tally.stage(self.threads.len(), at_most)
    }

    /// Progress of all workers.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.tally.progress()
    }

    /// How many each worker is to do, when all are at the stonewall.
    pub fn go_on_to(&self, goal: u64) {
        self.tally.set_goal(goal);
    }

    /// All are to end after what they are doing now.
    pub fn stop(&self) {
        self.tally.stop();
    }

    /// Waits until all have ended.
    ///
    /// # Errors
    /// The first trouble that one of them had; the others were then stopped.
    pub fn end(self) -> Result<AgentDone, Trouble> {
        let workers = self.threads.into_iter().map(joined).collect::<Result<Vec<Done>, Trouble>>()?;
        let fetched = self.fetched_before.zip(self.target.fetched_bytes());
        let fetched_bytes = fetched.map(|(before, after)| after.saturating_sub(before));
        Ok(AgentDone { workers, fetched_bytes })
    }

    /// Sends all home before they started; returns the trouble of the first that had one.
    pub fn dismiss(self) -> Trouble {
        self.tally.dismiss();
        let outcomes = self.threads.into_iter().map(joined).collect::<Vec<_>>();
        let first = outcomes.into_iter().find_map(Result::err);
        first.unwrap_or_else(|| Trouble("the workers could not get ready".into()))
    }
}

/// One worker's life.
fn work(task: &Task, phase: &Phase, target: &Arc<dyn Target>, tally: &Tally) -> Result<Done, Trouble> {
    // Also when it panics: others wait for it.
    let _ended = Ended(tally);
    // Kept until the turn has ended: saying goodbye to a server is not timed.
    let own = target.for_worker().map_err(|e| Trouble(e.to_string()));
    let prepared = own.as_ref().map_err(Clone::clone);
    let prepared = prepared.and_then(|own| work::prepare(task, phase, own.as_ref().unwrap_or(target)));
    let outcome = prepared.and_then(|work| {
        let Some(start) = tally.ready() else { return Ok(Done::default()) };
        let mut turn = Turn::new(tally, start, phase.limit);
        work.carry_out(&mut turn).map(|()| turn.end())
    });
    if outcome.is_err() {
        tally.stop();
    }
    outcome
}

struct Ended<'a>(&'a Tally);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
        }
        self.0.ended();
    }
}

/// A worker that panicked has said why on standard error.
fn joined(thread: JoinHandle<Result<Done, Trouble>>) -> Result<Done, Trouble> {
    thread.join().unwrap_or_else(|_| Err(Trouble("a worker panicked".into())))
}
