//! Messages between a coordinator and its agents.

use serde::{Deserialize, Serialize};

use crate::phase::{AgentDone, Phase};
use crate::result::Machine;
use crate::trouble::Trouble;
use crate::work::Progress;

/// From the coordinator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToAgent {
    /// Request for the agent's clocks. Answered with [`FromAgent::Clock`].
    Clock,
    /// Get ready for this; its only list of tasks is this agent's.
    Prepare(Phase),
    /// Go, at this moment of your own clock.
    Start {
        /// Nanoseconds, as in [`FromAgent::Clock`].
        at: u64,
    },
    /// After the time, all go on to this.
    Highest {
        /// How many each worker is to do.
        count: u64,
    },
    /// End the phase after what you are doing now, and say what was done. It may have ended already.
    Stop,
    /// It is over.
    Home {
        /// Cause of its early end.
        why: Option<String>,
    },
}

/// From an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromAgent {
    /// The first message.
    Hello(Box<Hello>),
    /// Its clocks.
    Clock {
        /// Nanoseconds since a moment of its own; never set.
        monotonic: u64,
        /// Nanoseconds since 1970; people and programs set it.
        time_of_day: u64,
    },
    /// All its workers are ready to start.
    Ready,
    /// Progress of its workers.
    Progress(Progress),
    /// The time is over, and the first of its workers has done so many.
    Reached {
        /// Records or names.
        count: u64,
    },
    /// They have ended.
    Done(Result<AgentDone, Trouble>),
}

/// Facts of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// Its machine, and what it measures.
    pub machine: Machine,
    /// Bytes that can still be written there.
    pub free_bytes: Option<u64>,
    /// Whether it has caches between its workers and what it measures.
    pub has_caches: bool,
}
