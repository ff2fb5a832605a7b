//! Computes a measurement from the results of workers.

use host::size;

use crate::latencies::Latencies;
use crate::phase::{AgentDone, Done, Phase};
use crate::result::{Cache, Measurement};
use crate::task::{Direction, NameOperation, Task, TreeOperation};
use crate::trouble::Trouble;

/// Share of read data that may come from the page cache: pages that readahead fetched just before the
/// counters were read, or that another worker read first.
const CACHED_PERCENT_MAX: u64 = 2;

/// Sums the results of all workers.
#[must_use]
pub fn measurement(phase: &Phase, agents: &[AgentDone], partial: bool) -> Measurement {
    let workers = || agents.iter().flat_map(|agent| &agent.workers);
    let sum = |of: fn(&Done) -> u64| workers().map(of).sum();
    let mut latencies = Latencies::default();
    workers().for_each(|done| latencies.merge(&done.latencies));
    Measurement {
        name: phase.name.clone(),
        at: phase.at.clone(),
        unit: phase.unit,
        cache: phase.cache,
        seconds: workers().map(|done| done.seconds).fold(0.0, f64::max),
        bytes: sum(|done| done.bytes),
        operations: sum(|done| done.operations),
        found: sum(|done| done.found),
        workers: workers().map(|done| done.seconds).collect(),
        latency_us: latencies.summary_us(),
        verified_bytes: sum(|done| done.verified_bytes),
        bound: None,
        partial,
    }
}

/// Refuses a read that came from the reader's page cache: it does not measure the file system.
///
/// # Errors
/// When data came from the page cache, or when the counters are unknown.
pub fn refuse_cached(phase: &Phase, agents: &[AgentDone]) -> Result<(), Trouble> {
    if matches!(phase.cache, Cache::Direct | Cache::Warm | Cache::None) {
        return Ok(());
    }
    for (tasks, agent) in phase.tasks.iter().zip(agents) {
        let read = |task: &Task| match task {
            Task::Transfer(transfer) => transfer.direction == Direction::Read,
            Task::Names(names) => names.operation == NameOperation::Read,
            Task::Tree(tree) => tree.operation == TreeOperation::Read,
            _ => false,
        };
        let workers = tasks.iter().zip(&agent.workers).filter(|(task, _)| read(task));
        let bytes: u64 = workers.map(|(_, done)| done.bytes).sum();
        if bytes == 0 {
            continue;
        }
        let Some(fetched) = agent.fetched_bytes else {
            return Err(Trouble(format!(
                "{}: nobody counts what this file system reads past the page cache, so this may be memory's speed: use \
                 --direct, or --warm to report it all the same",
                phase.name
            )));
        };
        if fetched < bytes - bytes / 100 * CACHED_PERCENT_MAX {
            return Err(Trouble(format!(
                "{}: of {} that were read only {} came from the file system, the rest from the client's page cache: use \
                 --direct, or --warm to report it all the same",
                phase.name,
                size::show(bytes),
                size::show(fetched)
            )));
        }
    }
    Ok(())
}
