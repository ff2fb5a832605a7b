//! Shape of a tree of directories: levels, and directories in each.

use crate::task::{NameOperation, Names};
use crate::trouble::Trouble;

/// Maximal number of directories: each worker has their paths in memory.
const DIRECTORIES_MAX: u64 = 100_000;

pub(super) struct Shape {
    /// Number of directories in each level, from the first below the top.
    counts: Vec<u64>,
}

impl Shape {
    pub fn new(depth: u32, fan_out: u64) -> Result<Self, Trouble> {
        let mut counts: Vec<u64> = Vec::new();
        let mut all: u64 = 1;
        for _ in 0..depth {
            let next = counts.last().unwrap_or(&1).saturating_mul(fan_out);
            all = all.saturating_add(next);
            if all > DIRECTORIES_MAX {
                return Err(Trouble(format!(
                    "a tree of depth {depth} with {fan_out} directories in each has more than {DIRECTORIES_MAX}: \
                     choose a smaller --depth or --fan-out"
                )));
            }
            counts.push(next);
        }
        Ok(Self { counts })
    }

    pub fn levels(&self) -> std::ops::Range<usize> {
        0..self.counts.len()
    }

    /// Task that makes the directories of one level, in turns in those of the level above.
    pub fn make(&self, top: &str, level: usize) -> Names {
        Names {
            operation: NameOperation::Mkdir,
            dirs: self.above(top, level),
            prefix: "d".to_owned(),
            first: 0,
            count: self.counts[level],
            file_bytes: 0,
            seed: 0,
        }
    }

    /// All directories, the top first.
    pub fn dirs(&self, top: &str) -> Vec<String> {
        (0..=self.counts.len()).flat_map(|level| self.above(top, level)).collect()
    }

    fn above(&self, top: &str, level: usize) -> Vec<String> {
        let Some(above) = level.checked_sub(1) else { return vec![top.to_owned()] };
        let made = self.make(top, above);
        (0..made.count).map(|i| made.path(i)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_directory_is_made_before_those_in_it() {
        let shape = Shape::new(2, 2).unwrap();
        let made = shape.levels().flat_map(|level| {
            let names = shape.make("t", level);
            (0..names.count).map(move |i| names.path(i)).collect::<Vec<_>>()
        });
        let dirs: Vec<String> = ["t".to_owned()].into_iter().chain(made).collect();
        assert_eq!(dirs, ["t", "t/d0", "t/d1", "t/d0/d0", "t/d1/d1", "t/d0/d2", "t/d1/d3"]);
        assert_eq!(shape.dirs("t"), dirs);
        assert_eq!(Shape::new(0, 9).unwrap().dirs("t"), ["t"]);
        assert!(Shape::new(u32::MAX, 2).is_err());
    }
}
