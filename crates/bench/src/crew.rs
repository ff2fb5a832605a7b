//! Crew: the workers of one machine in one phase, a thread for each; prepared, started together, awaited.
//!
//! ```text
//! Crew::prepare   each thread: files opened ── ready ──┐
//! start(at)                                            └─▶ all go at `at` ─▶ work ─▶ done
//! wait(a little), progress(), stop()     ... until wait returns that all have ended
//! go_on_to(n)                            ... when wait returns that all are at the stonewall
//! end()                                  ◀── AgentDone
//! ```
//!
//! Threads of one process stand for processes of a machine: a file system sees no difference, since each has
//! an open file of its own.

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

/// Workers that are ready or running.
pub struct Crew {
    tally: Arc<Tally>,
    threads: Vec<JoinHandle<Result<Done, Trouble>>>,
    target: Arc<dyn Target>,
    fetched_before: Option<u64>,
}

impl Crew {
    /// Starts a thread for each task of agent `agent`; returns when all are ready.
    ///
    /// # Errors
    /// Error of the first worker that failed to prepare.
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

    /// Starts all workers at this time.
    pub fn start(&self, at: Instant) {
        self.tally.start(at);
    }

    /// Stage of the workers; waits for a change of the stage, at most `at_most`.
    #[must_use]
    pub fn wait(&self, at_most: Duration) -> Stage {
        self.tally.stage(self.threads.len(), at_most)
    }

    /// Progress of all workers.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.tally.progress()
    }

    /// Sets the common goal of the workers at the stonewall.
    pub fn go_on_to(&self, goal: u64) {
        self.tally.set_goal(goal);
    }

    /// Stops all workers after their present operation.
    pub fn stop(&self) {
        self.tally.stop();
    }

    /// Waits for the end of all workers.
    ///
    /// # Errors
    /// First error of a worker; the other workers were then stopped.
    pub fn end(self) -> Result<AgentDone, Trouble> {
        let workers = self.threads.into_iter().map(joined).collect::<Result<Vec<Done>, Trouble>>()?;
        let fetched = self.fetched_before.zip(self.target.fetched_bytes());
        let fetched_bytes = fetched.map(|(before, after)| after.saturating_sub(before));
        Ok(AgentDone { workers, fetched_bytes })
    }

    /// Ends all workers before their start; returns the first error.
    pub fn dismiss(self) -> Trouble {
        self.tally.dismiss();
        let outcomes = self.threads.into_iter().map(joined).collect::<Vec<_>>();
        let first = outcomes.into_iter().find_map(Result::err);
        first.unwrap_or_else(|| Trouble("the workers could not get ready".into()))
    }
}

/// Thread of one worker.
fn work(task: &Task, phase: &Phase, target: &Arc<dyn Target>, tally: &Tally) -> Result<Done, Trouble> {
    // Drop guard, also for a panic: others wait for this worker.
    let _ended = Ended(tally);
    // Dropped after the turn: the disconnect from a server is not timed.
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

/// Joins a worker; the message of a panic is on standard error.
fn joined(thread: JoinHandle<Result<Done, Trouble>>) -> Result<Done, Trouble> {
    thread.join().unwrap_or_else(|_| Err(Trouble("a worker panicked".into())))
}
