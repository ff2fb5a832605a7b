//! Messages between a coordinator and its agents.

use serde::{Deserialize, Serialize};

use crate::phase::{AgentDone, Phase};
use crate::result::Machine;
use crate::trouble::Trouble;
use crate::work::Progress;

/// Message from the coordinator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToAgent {
    /// Request for the agent's clocks, answered by [`FromAgent::Clock`].
    Clock,
    /// Request to prepare a phase, whose only list of tasks is this agent's.
    Prepare(Phase),
    /// Start at this time of the agent's clock.
    Start {
        /// Nanoseconds, as in [`FromAgent::Clock`].
        at: u64,
    },
    /// Common goal after the stonewall.
    Highest {
        /// Number of records or names for each worker.
        count: u64,
    },
    /// Request to end the phase after the present operation, and to report. The phase may have ended already.
    Stop,
    /// End of the run.
    Home {
        /// Cause of an early end.
        why: Option<String>,
    },
}

/// Message from an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromAgent {
    /// The first message.
    Hello(Box<Hello>),
    /// Readings of its clocks.
    Clock {
        /// Monotonic clock, in nanoseconds since an arbitrary start.
        monotonic: u64,
        /// Wall clock, in nanoseconds since 1970; it may be set.
        time_of_day: u64,
    },
    /// All its workers are ready to start.
    Ready,
    /// Progress of its workers.
    Progress(Progress),
    /// Stonewall: the time is over, with the highest count of its workers.
    Reached {
        /// Number of records or names.
        count: u64,
    },
    /// End of all its workers.
    Done(Result<AgentDone, Trouble>),
}

/// Description of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// Its machine and target.
    pub machine: Machine,
    /// Free bytes of the target.
    pub free_bytes: Option<u64>,
    /// True if there are caches between its workers and the target.
    pub has_caches: bool,
}
