//! Team that executes phases: the workers of this machine, or of many.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::crew::Crew;
use crate::machine;
use crate::phase::{AgentDone, Phase};
use crate::result::Machine;
use crate::target::Target;
use crate::trouble::Trouble;
use crate::work::{Progress, Stage};

/// Interval of progress reports.
pub const WATCH_EACH: Duration = Duration::from_millis(100);

/// Observer of progress, called a few times a second; its answer `Break` stops the phase, whose partial work
/// is still a result, with `Done::stopped` set.
pub type Watch<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;

/// Agents that work at the same time, each a machine with any number of workers.
pub trait Team {
    /// Number of agents; a phase has a list of tasks for each.
    fn agents(&self) -> usize;
    /// Machines of the agents.
    fn machines(&self) -> Vec<Machine>;
    /// Free bytes of the target, if known.
    fn free_bytes(&self) -> Option<u64>;
    /// True if there are caches between any of the workers and the target.
    fn has_caches(&self) -> bool;
    /// Index of an agent that is still there, for cleanup.
    fn living(&self) -> usize {
        0
    }
    /// Executes a phase: prepares all workers, starts them together, and waits for them. Returns results by
    /// agent.
    ///
    /// # Errors
    /// First error of a worker; the other workers were then stopped.
    fn run(&mut self, phase: &Phase, watch: &mut Watch<'_>) -> Result<Vec<AgentDone>, Trouble>;
}

/// Team of this machine only: one agent.
pub struct Local {
    target: Arc<dyn Target>,
}

impl Local {
    /// Team for `target`.
    #[must_use]
    pub fn new(target: Arc<dyn Target>) -> Self {
        Self { target }
    }
}

impl Team for Local {
    fn agents(&self) -> usize {
        1
    }

    fn machines(&self) -> Vec<Machine> {
        vec![machine::this(&*self.target)]
    }

    fn free_bytes(&self) -> Option<u64> {
        self.target.free_bytes()
    }

    fn has_caches(&self) -> bool {
        self.target.has_caches()
    }

    fn run(&mut self, phase: &Phase, watch: &mut Watch<'_>) -> Result<Vec<AgentDone>, Trouble> {
        let crew = Crew::prepare(phase, 0, &self.target)?;
        crew.start(Instant::now());
        loop {
            match crew.wait(WATCH_EACH) {
                Stage::Ended => return Ok(vec![crew.end()?]),
                Stage::AtTheWall(furthest) => crew.go_on_to(furthest),
                Stage::Working => {
                    if watch(crew.progress()).is_break() {
                        crew.stop();
                    }
                }
            }
        }
    }
}
