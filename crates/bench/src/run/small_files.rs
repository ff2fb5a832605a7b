//! `small-files`: typical operations on a source tree: unpack, walk, read all, remove.

use clap::Args;
use serde::Serialize;

use super::ranks::Ranks;
use super::{Place, Plan};
use crate::data;
use crate::phase::Phase;
use crate::task::{Task, Tree, TreeOperation, Walk};
use crate::trouble::Trouble;

#[derive(Debug, Args, Serialize)]
pub struct SmallFiles {
    /// Workers on each machine, each with a tree of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    processes: u32,
    /// Files of each tree; 12 KB each on average, half of them below 4 KiB
    #[arg(long, value_name = "N", default_value_t = 5000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    files: u64,
}

impl Plan for SmallFiles {
    fn phases(&self, place: &Place) -> Result<Vec<Phase>, Trouble> {
        let ranks = Ranks::new(place, self.processes as usize);
        let at = [
            ("clients", place.agents as u64),
            ("processes", u64::from(self.processes)),
            ("files", self.files),
        ];
        let dir = |rank: usize| place.path(&format!("tree{rank}"));
        let tree = |operation, rank: usize| {
            let (dir, files) = (dir(rank), self.files);
            Task::Tree(Tree { operation, seed: data::seed(place.seed, &dir), dir, files })
        };
        let walk =
            |rank: usize| Task::Walk(Walk { dirs: vec![dir(rank)], name_has: String::new(), found: None });

        let mut phases = vec![place.asides(ranks.all().map(|rank| Task::Make(dir(rank))))];
        let own = ranks.all();
        let others = || ranks.all().map(|rank| ranks.other(rank, 1));
        let unpack = own.clone().map(|rank| tree(TreeOperation::Unpack, rank));
        phases.push(place.names_phase("unpack", &at, unpack));
        phases.push(place.names_phase("stat-walk", &at, others().map(walk)));
        let read = others().map(|rank| tree(TreeOperation::Read, rank));
        phases.push(place.names_phase("read", &at, read));
        phases.push(place.names_phase("remove", &at, own.map(|rank| tree(TreeOperation::Remove, rank))));
        Ok(phases)
    }
}
