//! What is drawn, all from one seed.

use std::ops::RangeInclusive;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// A sequence of draws.
#[derive(Debug, Clone)]
pub struct Dice(SmallRng);

impl Dice {
    /// The sequence of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(SmallRng::seed_from_u64(seed))
    }

    /// Another sequence, which what is drawn from this one does not change.
    pub fn fork(&mut self) -> Self {
        Self::new(self.number())
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0.random()
    }

    /// A number of the range.
    pub fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        self.0.random_range(range)
    }

    /// Below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0.random_range(0..bound.max(1))
    }

    /// True so often in a thousand.
    pub fn per_mille(&mut self, chance: u64) -> bool {
        self.within(1..=1000) <= chance
    }

    /// One of them.
    pub fn of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.below(all.len()))
    }
}
