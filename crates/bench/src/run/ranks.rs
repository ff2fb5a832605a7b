//! Ranks of all workers, numbered as MPI numbers its processes: one on each agent, then a second on each.

use super::Place;

/// Ranks of all workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ranks {
    agents: usize,
    count: usize,
}

impl Ranks {
    /// Ranks with `processes` workers on each agent.
    pub fn new(place: &Place, processes: usize) -> Self {
        Self { agents: place.agents, count: place.agents * processes }
    }

    /// All ranks.
    pub fn all(self) -> std::ops::Range<usize> {
        0..self.count
    }

    /// Number of ranks.
    pub fn count(self) -> u64 {
        self.count as u64
    }

    /// Rank whose files `rank` looks at, so that they are not in its client's caches: the rank `by` further,
    /// as mdtest and IOR shift their ranks, and one more if that rank is on the same client.
    pub fn other(self, rank: usize, by: usize) -> usize {
        let home = self.agents > 1 && by.is_multiple_of(self.agents);
        (rank + by + usize::from(home)) % self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_client_is_read_where_there_is_one_and_else_another_worker() {
        let others = |agents, count, by| {
            let ranks = Ranks { agents, count };
            ranks.all().map(|rank| ranks.other(rank, by)).collect::<Vec<_>>()
        };
        assert_eq!(others(2, 4, 1), [1, 2, 3, 0]);
        assert_eq!(others(2, 4, 2), [3, 0, 1, 2], "two further on is the same client");
        assert_eq!(others(3, 3, 2), [2, 0, 1]);
        assert_eq!(others(1, 3, 2), [2, 0, 1]);
        assert_eq!(others(1, 1, 1), [0]);
    }
}
