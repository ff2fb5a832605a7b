//! All workers of all agents in one row, as MPI numbers its processes: one on each agent, then a second on
//! each.

use super::Place;

/// How many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ranks {
    agents: usize,
    count: usize,
}

impl Ranks {
    /// So many workers on each agent.
    pub fn new(place: &Place, processes: usize) -> Self {
        Self { agents: place.agents, count: place.agents * processes }
    }

    /// All of them.
    pub fn all(self) -> std::ops::Range<usize> {
        0..self.count
    }

    /// How many.
    pub fn count(self) -> u64 {
        self.count as u64
    }

    /// Whose files `rank` looks at, so that they do not come from its client's caches: those of the rank `by`
    /// further on, as mdtest and IOR shift their ranks, and one more where these would be its own client's.
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
