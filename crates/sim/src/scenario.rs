//! Scenarios.

use crate::bug::Bug;

/// Cluster of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Replicas, and clients that speak to them.
    Replicas,
    /// Metaservers over replicas, plain data servers and NFS clients.
    Metaservers,
    /// The same with whole data servers, which keep copies.
    Copies,
}

/// Scenario of a run.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// Seed that determines the run.
    pub seed: u64,
    /// Cluster.
    pub kind: Kind,
    /// Duration of the faults.
    pub faults_ms: u64,
    /// True to print events.
    pub prints: bool,
    /// Seeded bug.
    pub bug: Option<Bug>,
}

impl Scenario {
    /// A short scenario of replicas.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        Self { seed, kind: Kind::Replicas, faults_ms: 5000, prints: false, bug: None }
    }

    /// A scenario of metaservers: some leases long.
    #[must_use]
    pub fn of_metaservers(seed: u64) -> Self {
        Self { kind: Kind::Metaservers, faults_ms: 20_000, ..Self::from_seed(seed) }
    }

    /// A scenario of metaservers and of data servers that keep copies.
    #[must_use]
    pub fn of_copies(seed: u64) -> Self {
        Self { kind: Kind::Copies, ..Self::of_metaservers(seed) }
    }
}
