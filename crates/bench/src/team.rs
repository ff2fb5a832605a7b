//! Those who carry phases out: the workers of this machine, or of many.

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

/// How often those who watch are told.
pub const WATCH_EACH: Duration = Duration::from_millis(100);

/// Told a few times a second what was done so far; answers whether to go on. What was done when it says no is
/// a result all the same, with `Done::stopped` set.
pub type Watch<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;

/// Agents that work at the same time, each a machine with any number of workers.
pub trait Team {
    /// How many agents; a phase has a list of tasks for each.
    fn agents(&self) -> usize;
    /// The machines.
    fn machines(&self) -> Vec<Machine>;
    /// Bytes that can still be written to what is under test, if anybody can tell.
    fn free_bytes(&self) -> Option<u64>;
    /// Whether any of them has caches between its workers and what is under test.
    fn has_caches(&self) -> bool;
    /// The number of one that is still there: it tidies up.
    fn living(&self) -> usize {
        0
    }
    /// Carries a phase out: all get ready, start together, and are waited for. What they did comes back by
    /// agent.
    ///
    /// # Errors
    /// The first trouble that a worker had; the others were then stopped.
    fn run(&mut self, phase: &Phase, watch: &mut Watch<'_>) -> Result<Vec<AgentDone>, Trouble>;
}

/// This machine alone: one agent.
pub struct Local {
    target: Arc<dyn Target>,
}

impl Local {
    /// Works on `target`.
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
