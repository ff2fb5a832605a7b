//! Latencies of the log and of consensus, for Prometheus.

use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// Latencies of one member.
#[derive(Debug)]
pub struct ReplicaMetrics {
    /// Seconds of one write of the log with its sync.
    pub(crate) log_sync: Histogram,
    /// Seconds from a command at the leader to its reply: log, replication and apply.
    pub(crate) commit: Histogram,
}

impl Default for ReplicaMetrics {
    fn default() -> Self {
        // 16 buckets from 50 µs to 1.6 s: from a fast disk to one that is about to fail.
        let buckets = || Histogram::new(exponential_buckets(50e-6, 2.0, 16));
        Self { log_sync: buckets(), commit: buckets() }
    }
}

impl ReplicaMetrics {
    /// Registers both histograms in `registry`.
    pub fn register(&self, registry: &mut Registry) {
        let seconds = Unit::Seconds;
        registry.register_with_unit(
            "log_sync",
            "Time of a write of the metadata log, with its sync",
            seconds,
            self.log_sync.clone(),
        );
        registry.register_with_unit(
            "commit",
            "Time of a change at the leader: log, replication, apply",
            Unit::Seconds,
            self.commit.clone(),
        );
    }
}
