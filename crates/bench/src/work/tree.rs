//! Tree of directories and small files like a source tree, made from a seed.
//!
//! Its shape is that of the Linux sources: about 15 files in a directory, each directory below a random
//! earlier one (so paths are ln(directories) deep on average), sizes log-normal with a median of 4 KiB and a
//! mean of three times that.

use std::sync::Arc;

use super::{Turn, Work, whole_file};
use crate::data;
use crate::phase::Phase;
use crate::target::Target;
use crate::task::{Tree, TreeOperation};
use crate::trouble::Trouble;

const FILES_IN_A_DIRECTORY: u64 = 15;
const MEDIAN_BYTES: f64 = 4096.0;
/// Standard deviation of the logarithm: `exp(σ²/2)` is the mean over the median.
const SIGMA: f64 = 1.5;
/// Maximal file size: real trees have few larger files, and one of them would be half of a small tree's
/// bytes.
const FILE_BYTES_MAX: f64 = (1 << 20) as f64;

/// Approximate bytes of `files` files, within a tenth for thousands.
pub(crate) fn bytes_about(files: u64) -> u64 {
    (files as f64 * MEDIAN_BYTES * (SIGMA * SIGMA / 2.0).exp()) as u64
}

pub(super) fn prepare(tree: &Tree, phase: &Phase, target: &Arc<dyn Target>) -> Box<dyn Work> {
    let steps = Plan::new(tree).steps(tree.operation);
    Box::new(TreeWork { steps, target: target.clone(), verify: phase.verify, buffer: Vec::new() })
}

/// Steps in order.
enum Step {
    Mkdir(String),
    Create(File),
    Read(File),
    Unlink(File),
    Rmdir(String),
}

struct TreeWork {
    steps: Vec<Step>,
    target: Arc<dyn Target>,
    verify: bool,
    buffer: Vec<u8>,
}

impl Work for TreeWork {
    fn carry_out(mut self: Box<Self>, turn: &mut Turn<'_>) -> Result<(), Trouble> {
        let (target, verify) = (&*self.target, self.verify);
        for step in &self.steps {
            if !turn.goes_on() {
                break;
            }
            match step {
                // Directories take time but are not counted: the result is files a second.
                Step::Mkdir(path) => {
                    target.mkdir(path).map_err(|e| Trouble::io(&format!("mkdir {path}"), &e))?;
                }
                Step::Rmdir(path) => {
                    target.rmdir(path).map_err(|e| Trouble::io(&format!("rmdir {path}"), &e))?;
                }
                Step::Create(File { path, seed, bytes }) => {
                    whole_file::create(target, path, *seed, *bytes, &mut self.buffer)?;
                    turn.did(*bytes);
                }
                Step::Read(File { path, seed, bytes }) => {
                    whole_file::read(target, path, *seed, *bytes, verify, &mut self.buffer)?;
                    if verify {
                        turn.verified(*bytes);
                    }
                    turn.did(*bytes);
                }
                Step::Unlink(File { path, .. }) => {
                    target.unlink(path).map_err(|e| Trouble::io(&format!("unlink {path}"), &e))?;
                    turn.did(0);
                }
            }
        }
        Ok(())
    }
}

/// Content of the tree. A directory comes after its parent.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    /// The first one is [`Tree::dir`], which exists.
    dirs: Vec<Directory>,
}

#[derive(Debug, PartialEq, Eq)]
struct Directory {
    path: String,
    files: Vec<File>,
}

#[derive(Debug, PartialEq, Eq)]
struct File {
    path: String,
    bytes: u64,
    seed: u64,
}

impl Plan {
    fn new(tree: &Tree) -> Self {
        let mut random = Random { seed: tree.seed, next: 0 };
        let count = (tree.files / FILES_IN_A_DIRECTORY).max(1);
        let mut dirs = vec![Directory { path: tree.dir.clone(), files: Vec::new() }];
        for number in 1..count {
            let parent = &dirs[random.below(number) as usize].path;
            dirs.push(Directory { path: format!("{parent}/d{number}"), files: Vec::new() });
        }
        for number in 0..tree.files {
            let dir = &mut dirs[random.below(count) as usize];
            let path = format!("{}/f{number}", dir.path);
            let bytes = (MEDIAN_BYTES * (SIGMA * random.normal()).exp()).min(FILE_BYTES_MAX) as u64;
            dir.files.push(File { path, bytes, seed: tree.seed.wrapping_add(number + 1) });
        }
        Self { dirs }
    }

    fn steps(self, operation: TreeOperation) -> Vec<Step> {
        let dirs = self.dirs.into_iter();
        match operation {
            TreeOperation::Unpack => dirs
                .enumerate()
                .flat_map(|(number, dir)| {
                    let made = (number > 0).then_some(Step::Mkdir(dir.path));
                    made.into_iter().chain(dir.files.into_iter().map(Step::Create))
                })
                .collect(),
            TreeOperation::Read => dirs.flat_map(|dir| dir.files.into_iter().map(Step::Read)).collect(),
            TreeOperation::Remove => dirs
                .enumerate()
                .rev()
                .flat_map(|(number, dir)| {
                    let removed = (number > 0).then_some(Step::Rmdir(dir.path));
                    dir.files.into_iter().map(Step::Unlink).chain(removed)
                })
                .collect(),
        }
    }
}

struct Random {
    seed: u64,
    next: u64,
}

impl Random {
    fn word(&mut self) -> u64 {
        let mut word = [0; size_of::<u64>()];
        data::fill(self.seed, self.next, &mut word);
        self.next += word.len() as u64;
        u64::from_le_bytes(word)
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(bound)) >> 64) as u64
    }

    /// Approximately normal: the sum of twelve uniform numbers has variance 1, and is accurate within 3 σ.
    fn normal(&mut self) -> f64 {
        let sum: f64 = (0..12).map(|_| self.word() as f64 / u64::MAX as f64).sum();
        sum - 6.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_looks_like_one_of_sources_and_the_same_for_the_same_seed() {
        let tree = |seed| Tree { operation: TreeOperation::Unpack, dir: "t".into(), files: 6000, seed };
        let plan = Plan::new(&tree(1));
        assert_eq!(plan, Plan::new(&tree(1)));
        assert_ne!(plan, Plan::new(&tree(2)));

        let mut sizes: Vec<u64> =
            plan.dirs.iter().flat_map(|dir| &dir.files).map(|file| file.bytes).collect();
        sizes.sort_unstable();
        assert_eq!((plan.dirs.len(), sizes.len()), (400, 6000));
        let (median, mean) = (sizes[3000], sizes.iter().sum::<u64>() / 6000);
        assert!((3600..4600).contains(&median), "median {median}");
        assert!((10_000..15_000).contains(&mean), "mean {mean}");
        let share = bytes_about(6000) as f64 / sizes.iter().sum::<u64>() as f64;
        assert!((0.9..1.15).contains(&share), "{share} of what it takes");
        let depth = plan.dirs.iter().map(|dir| dir.path.matches('/').count()).sum::<usize>() / 400;
        assert!((4..8).contains(&depth), "{depth} deep");
    }
}
