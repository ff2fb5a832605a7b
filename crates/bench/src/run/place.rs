//! Place of a run: the parameters of its phases.

use std::collections::BTreeMap;

use crate::common::Common;
use crate::data;
use crate::phase::Phase;
use crate::result::{Cache, Unit};
use crate::task::{Direction, Order, Records, Task, Transfer};
use crate::team::Team;

/// Place of a run.
#[derive(Debug, Clone)]
pub struct Place {
    /// Number of agents, at least 1.
    pub agents: usize,
    /// Folder of the run, which exists and is empty.
    pub folder: String,
    /// Seed of data and orders.
    pub seed: u64,
    /// Treatment of caches for writes and for reads.
    write_cache: Cache,
    read_cache: Cache,
    verify: bool,
}

impl Place {
    /// Place by the options, for `team`.
    #[must_use]
    pub fn new(common: &Common, team: &dyn Team, folder: String, seed: u64) -> Self {
        let (write_cache, read_cache) = match (common.direct, common.warm) {
            // Without caches there is nothing to warm, drop or bypass.
            _ if !team.has_caches() => (Cache::FsyncAtEnd, Cache::None),
            (true, _) => (Cache::Direct, Cache::Direct),
            (false, true) => (Cache::FsyncAtEnd, Cache::Warm),
            (false, false) => (Cache::FsyncAtEnd, Cache::Dropped),
        };
        Self { agents: team.agents(), folder, seed, write_cache, read_cache, verify: common.verify }
    }

    /// Path in the folder.
    #[must_use]
    pub fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    /// File with a seed of its own.
    #[must_use]
    pub fn file(&self, name: &str) -> DataFile {
        let path = self.path(name);
        DataFile { seed: data::seed(self.seed, &path), path }
    }

    /// Tasks spread over the agents: one on each, then a second on each, and so on.
    #[must_use]
    pub fn spread(&self, workers: impl IntoIterator<Item = Task>) -> Vec<Vec<Task>> {
        let mut tasks = vec![Vec::new(); self.agents];
        for (i, task) in workers.into_iter().enumerate() {
            tasks[i % self.agents].push(task);
        }
        tasks
    }

    /// Tasks of the first agent only.
    #[must_use]
    pub fn on_one(&self, workers: impl IntoIterator<Item = Task>) -> Vec<Vec<Task>> {
        self.on(0, workers)
    }

    fn on(&self, agent: usize, workers: impl IntoIterator<Item = Task>) -> Vec<Vec<Task>> {
        let mut tasks = vec![Vec::new(); self.agents];
        tasks[agent].extend(workers);
        tasks
    }

    /// Phase whose workers all move data in the same direction.
    #[must_use]
    pub fn phase(
        &self,
        name: &str,
        at: &[(&str, u64)],
        direction: Direction,
        tasks: Vec<Vec<Task>>,
    ) -> Phase {
        let cache = match direction {
            Direction::Write => self.write_cache,
            Direction::Read => self.read_cache,
        };
        Phase {
            name: name.to_owned(),
            at: at.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
            tasks,
            unit: Unit::Bytes,
            cache,
            verify: self.verify,
            limit: None,
            counts: true,
        }
    }

    /// Phases in a folder of their own, which is removed before the next point: two points never need space
    /// at the same time.
    #[must_use]
    pub fn point(&self, folder: &str, phases: impl IntoIterator<Item = Phase>) -> Vec<Phase> {
        let folder = self.path(folder);
        let mut all = vec![self.aside(Task::Make(folder.clone()))];
        all.extend(phases);
        all.push(self.aside(Task::Clear(folder)));
        all
    }

    /// Phase of one operation on names. Names of another client, or of another worker, are looked up with
    /// empty caches.
    #[must_use]
    pub fn names_phase(
        &self,
        name: &str,
        at: &[(&str, u64)],
        workers: impl IntoIterator<Item = Task>,
    ) -> Phase {
        let workers: Vec<Task> = workers.into_iter().collect();
        let cache = match (workers.iter().any(Task::looks_at_names), self.read_cache) {
            (false, _) => Cache::AsIs,
            (true, Cache::Warm | Cache::None) => self.read_cache,
            (true, _) if self.agents > 1 => Cache::NotHere,
            (true, _) => Cache::Dropped,
        };
        // Operations on names have no direction: `cache` has the difference.
        Phase {
            unit: Unit::Operations,
            cache,
            ..self.phase(name, at, Direction::Write, self.spread(workers))
        }
    }

    /// Phase that only prepares, or cleans up.
    #[must_use]
    pub fn aside(&self, task: Task) -> Phase {
        self.asides([task])
    }

    /// Such a phase on an agent that is still there.
    #[must_use]
    pub fn aside_by(&self, agent: usize, task: Task) -> Phase {
        Phase { tasks: self.on(agent, [task]), ..self.asides([]) }
    }

    /// Such a phase with several workers of the first agent.
    #[must_use]
    pub fn asides(&self, tasks: impl IntoIterator<Item = Task>) -> Phase {
        Phase {
            name: "aside".to_owned(),
            at: BTreeMap::new(),
            tasks: self.on_one(tasks),
            unit: Unit::Operations,
            cache: Cache::AsIs,
            verify: false,
            limit: None,
            counts: false,
        }
    }
}

/// File of a run, and its content.
#[derive(Debug, Clone)]
pub struct DataFile {
    path: String,
    seed: u64,
}

impl DataFile {
    /// The same file with other content.
    #[must_use]
    pub fn refilled(&self) -> Self {
        Self { path: self.path.clone(), seed: data::seed(self.seed, "refilled") }
    }

    /// Task that writes or reads some records.
    #[must_use]
    pub fn transfer(&self, direction: Direction, records: Records, order: Order) -> Task {
        Task::Transfer(Transfer { path: self.path.clone(), direction, records, order, seed: self.seed })
    }
}
