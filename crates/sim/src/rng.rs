//! Random numbers, all from one seed.

use std::ops::RangeInclusive;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Sequence of random numbers.
#[derive(Debug, Clone)]
pub struct Rng(SmallRng);

impl Rng {
    /// Creates the sequence of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(SmallRng::seed_from_u64(seed))
    }

    /// Creates another sequence, independent of later numbers of this one.
    pub fn fork(&mut self) -> Self {
        Self::new(self.number())
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0.random()
    }

    /// A number in the range.
    pub fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        self.0.random_range(range)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0.random_range(0..bound.max(1))
    }

    /// True for this many of a thousand.
    pub fn per_mille(&mut self, chance: u64) -> bool {
        self.within(1..=1000) <= chance
    }

    /// One of the items.
    pub fn of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.below(all.len()))
    }
}
