//! `io500`: the phases of the IO500 in their order and by their rules, for a chosen time, and its score.
//!
//! ```text
//! ior-easy     a file for each worker, large records
//! mdtest-easy  a directory for each worker, empty files
//! ior-hard     one file, records of 47,008 bytes that the workers write in turns
//! mdtest-hard  one directory, files of 3,901 bytes
//! ```
//!
//! These four write for the given time, with wear-out ([`Then::WearOut`]); later phases read, stat and remove
//! these files. Another worker than the writer reads or removes a file. `find` walks the whole tree for names
//! of mdtest-hard with `01`. The rules are those of io500.org of 2024; a valid result for the list has a time
//! of 300 s.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::ranks::Ranks;
use super::{Place, Plan, check};
use crate::phase::{AgentDone, Limit, Phase, Then};
use crate::result::Measurement;
use crate::task::Direction::{Read, Write};
use crate::task::{Found, NameOperation, Names, Order, Records, Task, Walk};
use crate::trouble::Trouble;

const HARD_RECORD_BYTES: u64 = 47_008;
const HARD_FILE_BYTES: u64 = 3901;
/// Limits of the IO500's write phases: a worker that reaches one ends before the time, and the result is
/// invalid for the list.
const EASY_FILE_BYTES_MAX: u64 = 9_920_000 << 20;
const HARD_RECORDS_MAX: u64 = 10_000_000;
const FILES_MAX: u64 = 1_000_000;

/// Phases scored by bandwidth, and phases scored by operations.
const BANDWIDTHS: [&str; 4] = ["ior-easy-write", "ior-hard-write", "ior-easy-read", "ior-hard-read"];
const RATES: [&str; 8] = [
    "mdtest-easy-write",
    "mdtest-hard-write",
    "find",
    "mdtest-easy-stat",
    "mdtest-hard-stat",
    "mdtest-easy-delete",
    "mdtest-hard-read",
    "mdtest-hard-delete",
];

#[derive(Debug, Args, Serialize)]
pub struct Io500 {
    /// Workers on each machine
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    processes: u32,
    /// How long each of the four phases that write does so; 300s for a result that is valid there
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "30s")]
    #[serde(serialize_with = "as_text")]
    time: Duration,
    /// Size of ior-easy's records
    #[arg(long, value_name = "SIZE", value_parser = host::size::parse, default_value = "2MiB")]
    easy_record: u64,
}

fn as_text<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_duration(*time))
}

/// Number of records or files that each worker has written.
#[derive(Debug, Clone, Copy)]
struct Written {
    ior_easy: u64,
    mdtest_easy: u64,
    ior_hard: u64,
    mdtest_hard: u64,
}

impl Plan for Io500 {
    /// Write phases: their amount is known only after them.
    fn phases(&self, place: &Place) -> Result<Vec<Phase>, Trouble> {
        check::records(EASY_FILE_BYTES_MAX, self.easy_record)?;
        if self.time.is_zero() {
            return Err(Trouble("--time is 0: choose how long the phases that write do so".to_owned()));
        }
        let most = Written {
            ior_easy: EASY_FILE_BYTES_MAX / self.easy_record,
            mdtest_easy: FILES_MAX,
            ior_hard: HARD_RECORDS_MAX,
            mdtest_hard: FILES_MAX,
        };
        let all = All { io500: self, place, ranks: Ranks::new(place, self.processes as usize), counts: most };
        let limit = Some(Limit { after: self.time, then: Then::WearOut });
        let limited = |phase| Phase { limit, ..phase };

        let folders = ["ior-easy", "mdtest-easy", "ior-hard", "mdtest-hard"].map(|name| place.path(name));
        let own = all.ranks.all().map(|rank| all.easy_dir(rank));
        let mut phases = vec![place.asides(folders.map(Task::Make)), place.asides(own.map(Task::Make))];
        phases.extend([
            limited(all.ior("ior-easy-write", Write, |rank| all.ior_easy(Write, rank))),
            limited(all.names("mdtest-easy-write", 0, |rank| all.easy(NameOperation::Create, rank))),
            place.aside(all.timestamp(NameOperation::Create)),
            limited(all.ior("ior-hard-write", Write, |rank| all.ior_hard(Write, rank))),
            limited(all.names("mdtest-hard-write", 0, |rank| all.hard(NameOperation::Create, rank))),
        ]);
        Ok(phases)
    }

    fn more(&self, place: &Place, done: &[(Phase, Vec<AgentDone>)]) -> Result<Vec<Phase>, Trouble> {
        if done.iter().any(|(phase, _)| phase.name == "find") {
            return Ok(vec![]);
        }
        // All workers have done the same number.
        let written = |name: &str| {
            let agents = done.iter().filter(|(phase, _)| phase.name == name).flat_map(|(_, agents)| agents);
            agents.flat_map(|agent| &agent.workers).map(|worker| worker.operations).max().unwrap_or(0)
        };
        let counts = Written {
            ior_easy: written("ior-easy-write"),
            mdtest_easy: written("mdtest-easy-write"),
            ior_hard: written("ior-hard-write"),
            mdtest_hard: written("mdtest-hard-write"),
        };
        let all = All { io500: self, place, ranks: Ranks::new(place, self.processes as usize), counts };
        let names = NameOperation::Unlink;
        Ok(vec![
            place.names_phase("find", &all.at(), all.find()),
            all.ior("ior-easy-read", Read, |rank| all.ior_easy(Read, all.ranks.other(rank, 1))),
            all.names("mdtest-easy-stat", 1, |rank| all.easy(NameOperation::Stat, rank)),
            all.ior("ior-hard-read", Read, |rank| all.ior_hard(Read, all.ranks.other(rank, 1))),
            all.names("mdtest-hard-stat", 1, |rank| all.hard(NameOperation::Stat, rank)),
            all.names("mdtest-easy-delete", 3, |rank| all.easy(names, rank)),
            all.names("mdtest-hard-read", 2, |rank| all.hard(NameOperation::Read, rank)),
            all.names("mdtest-hard-delete", 3, |rank| all.hard(names, rank)),
        ])
    }

    fn scores(&self, measurements: &[Measurement]) -> BTreeMap<String, f64> {
        score(measurements).unwrap_or_default()
    }
}

/// Parameters of the tasks.
struct All<'a> {
    io500: &'a Io500,
    place: &'a Place,
    ranks: Ranks,
    counts: Written,
}

impl All<'_> {
    fn at(&self) -> [(&'static str, u64); 2] {
        [("clients", self.place.agents as u64), ("processes", u64::from(self.io500.processes))]
    }

    fn ior(&self, name: &str, direction: crate::task::Direction, task: impl Fn(usize) -> Task) -> Phase {
        let tasks = self.place.spread(self.ranks.all().map(task));
        self.place.phase(name, &self.at(), direction, tasks)
    }

    /// Phase on the names of the worker `by` ranks further.
    fn names(&self, name: &str, by: usize, task: impl Fn(usize) -> Task) -> Phase {
        let whose = |rank| if by == 0 { rank } else { self.ranks.other(rank, by) };
        self.place.names_phase(name, &self.at(), self.ranks.all().map(|rank| task(whose(rank))))
    }

    fn ior_easy(&self, direction: crate::task::Direction, rank: usize) -> Task {
        let record_bytes = self.io500.easy_record;
        let records = Records { start: 0, record_bytes, stride: record_bytes, count: self.counts.ior_easy };
        self.place.file(&format!("ior-easy/file.{rank}")).transfer(direction, records, Order::Forward)
    }

    fn ior_hard(&self, direction: crate::task::Direction, rank: usize) -> Task {
        let records = Records {
            start: rank as u64 * HARD_RECORD_BYTES,
            record_bytes: HARD_RECORD_BYTES,
            stride: self.ranks.count() * HARD_RECORD_BYTES,
            count: self.counts.ior_hard,
        };
        self.place.file("ior-hard/file").transfer(direction, records, Order::Forward)
    }

    fn easy_dir(&self, rank: usize) -> String {
        self.place.path(&format!("mdtest-easy/w{rank}"))
    }

    fn easy(&self, operation: NameOperation, rank: usize) -> Task {
        self.files(operation, self.easy_dir(rank), rank, (self.counts.mdtest_easy, 0))
    }

    fn hard(&self, operation: NameOperation, rank: usize) -> Task {
        let dir = self.place.path("mdtest-hard");
        self.files(operation, dir, rank, (self.counts.mdtest_hard, HARD_FILE_BYTES))
    }

    /// Names as in mdtest: the number of names with `01` matters for `find`.
    fn files(
        &self,
        operation: NameOperation,
        dir: String,
        rank: usize,
        (count, file_bytes): (u64, u64),
    ) -> Task {
        let prefix = format!("file.mdtest.{rank}.");
        let seed = self.place.seed.wrapping_add(rank as u64 * FILES_MAX);
        Task::Names(Names { operation, dirs: vec![dir], prefix, first: 0, count, file_bytes, seed })
    }

    fn timestamp(&self, operation: NameOperation) -> Task {
        Task::Names(Names {
            operation,
            dirs: vec![self.place.folder.clone()],
            prefix: "timestamp".to_owned(),
            first: 0,
            count: 1,
            file_bytes: 0,
            seed: 0,
        })
    }

    /// Tasks of find: the last worker walks the shared directory, which only one can list and which has the
    /// most names; the others walk the rest in turns.
    fn find(&self) -> Vec<Task> {
        let path = |name: &str| self.place.path(name);
        let last = self.ranks.all().end - 1;
        let mut dirs = vec![Vec::new(); last + 1];
        dirs[last].push(path("mdtest-hard"));
        let others = self.ranks.all().map(|rank| self.easy_dir(rank));
        for (i, dir) in [path("ior-easy"), path("ior-hard")].into_iter().chain(others).enumerate() {
            dirs[i % last.max(1)].push(dir);
        }
        let found = Found { bytes: HARD_FILE_BYTES, since: path("timestamp0") };
        let walk = |dirs| Task::Walk(Walk { dirs, name_has: "01".to_owned(), found: Some(found.clone()) });
        dirs.into_iter().map(walk).collect()
    }
}

/// Score: the geometric means of bandwidths and of rates, and the square root of their product; none if a
/// phase is missing.
fn score(measurements: &[Measurement]) -> Option<BTreeMap<String, f64>> {
    let of = |name: &&str| measurements.iter().find(|m| m.name == **name).filter(|m| m.seconds > 0.0);
    let gib = |m: &Measurement| m.bytes as f64 / m.seconds / f64::from(1 << 30);
    let kiops = |m: &Measurement| m.operations as f64 / m.seconds / 1000.0;
    let bandwidth = geometric_mean(&BANDWIDTHS.iter().map(|n| of(n).map(gib)).collect::<Option<Vec<_>>>()?);
    let rate = geometric_mean(&RATES.iter().map(|n| of(n).map(kiops)).collect::<Option<Vec<_>>>()?);
    let scores =
        [("bandwidth, GiB/s", bandwidth), ("operations, k/s", rate), ("score", (bandwidth * rate).sqrt())];
    Some(scores.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn geometric_mean(values: &[f64]) -> f64 {
    let logarithms: f64 = values.iter().map(|value| value.ln()).sum();
    (logarithms / values.len() as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Cache, Unit};

    /// Bandwidths 1, 2, 4 and 8 GiB/s: (1·2·4·8)^(1/4) = 64^(1/4) = 2√2. Rates 1 and 16 k/s, four of each: 4.
    /// The score is √(8√2) = 3.3636.
    #[test]
    fn the_score_is_that_of_hand_worked_numbers() {
        let measurement = |name: &str, bytes: u64, operations: u64, seconds: f64| Measurement {
            name: name.to_owned(),
            at: BTreeMap::new(),
            unit: Unit::Bytes,
            cache: Cache::AsIs,
            seconds,
            bytes,
            operations,
            found: 0,
            workers: vec![seconds],
            latency_us: [0.0; 4],
            verified_bytes: 0,
            bound: None,
            partial: false,
        };
        let mut all: Vec<Measurement> = BANDWIDTHS
            .iter()
            .zip([1, 2, 4, 8])
            .map(|(name, gib)| measurement(name, gib << 31, 7, 2.0))
            .collect();
        for (i, name) in RATES.iter().enumerate() {
            all.push(measurement(name, 7, if i % 2 == 0 { 4000 } else { 64_000 }, 4.0));
        }
        let scores = score(&all).unwrap();
        let near = |name: &str, value: f64| assert!((scores[name] - value).abs() < 1e-4, "{scores:?}");
        near("bandwidth, GiB/s", 2.0 * 2.0_f64.sqrt());
        near("operations, k/s", 4.0);
        near("score", 3.3636);
        all.remove(3);
        assert_eq!(score(&all), None, "a phase is missing");
    }
}
