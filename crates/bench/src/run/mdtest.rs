//! `mdtest`: operations on names. Each worker creates its files, stats another worker's, lists another's
//! directories, and renames and removes its own; then the same with directories. All that in a private tree
//! for each worker, and in a shared one.
//!
//! ```text
//! private-0/w0/  d0/ d1/    of worker 0, with fan-out 2 and depth 1: its files in turns in w0, w0/d0, w0/d1
//! private-0/w1/  d0/ d1/
//! shared-0/s0/   d0/ d1/    empty files of all workers
//! shared-4096/s0/ ...       files of 4 KiB
//! shared-dirs/s0/ ...       directories of all workers
//! ```

mod shape;

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::ranks::Ranks;
use super::{Place, Plan};
use crate::phase::Phase;
use crate::task::{NameOperation, Names, Task};
use crate::trouble::Trouble;
use shape::Shape;

#[derive(Debug, Args, Serialize)]
pub struct Mdtest {
    /// Workers on each machine
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    processes: u32,
    /// Files of each worker, and directories that it makes and removes
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    files: u64,
    /// Sizes of the files, each measured on its own
    #[arg(long, value_name = "SIZES", value_parser = host::size::parse, value_delimiter = ',', default_value = "0,4KiB")]
    sizes: Vec<u64>,
    /// Directories of each worker's own, one tree that all share, or both
    #[arg(long, value_name = "TREES", value_delimiter = ',', default_value = "private,shared")]
    trees: Vec<Trees>,
    /// Levels of directories below the first
    #[arg(long, value_name = "N", default_value_t = 0)]
    depth: u32,
    /// Directories in each
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    fan_out: u64,
    /// What is done. Without create, it is done to the (renamed) files that an earlier run with --folder and
    /// --keep left
    #[arg(
        long,
        value_name = "OPERATIONS",
        value_delimiter = ',',
        default_value = "create,stat,list,rename,unlink,mkdir,rmdir"
    )]
    operations: Vec<Operation>,
    /// How often files are asked for their attributes or read, and directories listed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
}

/// Owner of a tree of directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Trees {
    Private,
    Shared,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Operation {
    Create,
    Stat,
    /// Opened, read and closed
    Read,
    List,
    Rename,
    Unlink,
    Mkdir,
    Rmdir,
}

const FILES: [(Operation, NameOperation); 6] = [
    (Operation::Create, NameOperation::Create),
    (Operation::Stat, NameOperation::Stat),
    (Operation::Read, NameOperation::Read),
    (Operation::List, NameOperation::List),
    (Operation::Rename, NameOperation::Rename),
    (Operation::Unlink, NameOperation::Unlink),
];
const DIRECTORIES: [(Operation, NameOperation); 2] =
    [(Operation::Mkdir, NameOperation::Mkdir), (Operation::Rmdir, NameOperation::Rmdir)];

impl Plan for Mdtest {
    fn phases(&self, place: &Place) -> Result<Vec<Phase>, Trouble> {
        let ranks = Ranks::new(place, self.processes as usize);
        let shape = Shape::new(self.depth, self.fan_out)?;
        let mut phases = Vec::new();
        for &trees in &self.trees {
            for &file_bytes in &self.sizes {
                let forest = Forest::new(place, ranks, &shape, trees, &file_bytes.to_string());
                phases.extend(self.items(&forest, &FILES, Some(file_bytes)));
            }
            let forest = Forest::new(place, ranks, &shape, trees, "dirs");
            phases.extend(self.items(&forest, &DIRECTORIES, None));
        }
        Ok(phases)
    }
}

impl Mdtest {
    /// Phases on files of one size, or on directories, after the phases that make their trees.
    fn items(
        &self,
        forest: &Forest<'_>,
        operations: &[(Operation, NameOperation)],
        file_bytes: Option<u64>,
    ) -> Vec<Phase> {
        let is_asked = |operation: &Operation| self.operations.contains(operation);
        let mut phases = if is_asked(&operations[0].0) { forest.make() } else { vec![] };
        let was_renamed = is_asked(&Operation::Rename) || !is_asked(&Operation::Create);
        let mut at = vec![
            ("clients", forest.place.agents as u64),
            ("processes", u64::from(self.processes)),
            ("files", self.files),
        ];
        at.extend(file_bytes.map(|bytes| ("file_bytes", bytes)));
        for &(asked, operation) in operations.iter().filter(|(asked, _)| is_asked(asked)) {
            let other = matches!(operation, NameOperation::Stat | NameOperation::Read | NameOperation::List);
            let renamed = operation == NameOperation::Unlink && was_renamed;
            let task = |rank: usize| {
                let whose = if other { forest.ranks.other(rank, 1) } else { rank };
                Task::Names(Names {
                    operation,
                    dirs: forest.shape.dirs(forest.top(whose)),
                    prefix: format!("{}item.{whose}.", if renamed { "r" } else { "" }),
                    first: 0,
                    count: self.files,
                    file_bytes: file_bytes.unwrap_or(0),
                    seed: forest.place.seed.wrapping_add(whose as u64 * self.files),
                })
            };
            let name = format!("{}-{}", forest.kind, name(asked));
            let phase = forest.place.names_phase(&name, &at, forest.ranks.all().map(task));
            for round in 1..=if other { self.rounds } else { 1 } {
                let mut phase = phase.clone();
                if other && self.rounds > 1 {
                    phase.at.insert("round".to_owned(), round);
                }
                phases.push(phase);
            }
        }
        phases
    }
}

fn name(operation: Operation) -> String {
    operation.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Trees of one kind for items of one kind.
struct Forest<'a> {
    place: &'a Place,
    ranks: Ranks,
    shape: &'a Shape,
    kind: &'static str,
    folder: String,
    tops: Vec<String>,
}

impl<'a> Forest<'a> {
    fn new(place: &'a Place, ranks: Ranks, shape: &'a Shape, trees: Trees, items: &str) -> Self {
        let (kind, names) = match trees {
            Trees::Private => ("private", ranks.all().map(|rank| format!("w{rank}")).collect()),
            Trees::Shared => ("shared", vec!["s0".to_owned()]),
        };
        let folder = place.path(&format!("{kind}-{items}"));
        let tops = names.into_iter().map(|name: String| format!("{folder}/{name}")).collect();
        Self { place, ranks, shape, kind, folder, tops }
    }

    fn top(&self, rank: usize) -> &str {
        &self.tops[rank % self.tops.len()]
    }

    fn make(&self) -> Vec<Phase> {
        let tops = self.tops.iter().cloned().map(Task::Make);
        let mut phases = vec![self.place.aside(Task::Make(self.folder.clone())), self.place.asides(tops)];
        for level in self.shape.levels() {
            let makers = self.tops.iter().map(|top| Task::Names(self.shape.make(top, level)));
            phases.push(self.place.asides(makers));
        }
        phases
    }
}
