//! Counts of the chains of one data server, for the Prometheus endpoint.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// The counts.
#[derive(Debug, Default)]
pub struct ChainMetrics {
    /// Changes sent to the next member of a chain.
    pub forwards: Counter,
    /// Changes sent again, after no answer or a refusal.
    pub forward_retries: Counter,
    /// Calls of other data servers whose bytes did not fit their sums.
    pub wrong_sums: Counter,
    /// Changes that a member which is not the head sent to the head.
    pub relays: Counter,
    /// Calls that wait for a lease, a chain or a lock.
    pub waiting: Gauge<i64, AtomicI64>,
    /// Bytes that this server, as head, compared with members that are being refilled.
    pub refill_compared: Counter,
    /// Bytes that this server, as head, sent to members that are being refilled.
    pub refilled: Counter,
    /// Members that this server, as head, refilled by dirty logs, without a comparison of all data.
    pub refills_by_logs: Counter,
    /// Chains whose members this server refills now.
    pub refilling: Gauge<i64, AtomicI64>,
}

/// Guard that counts a waiting call until it is dropped.
pub(crate) struct Waiting(Arc<ChainMetrics>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.dec();
    }
}

impl ChainMetrics {
    pub(crate) fn waits(self: &Arc<Self>) -> Waiting {
        self.waiting.inc();
        Waiting(Arc::clone(self))
    }

    /// Registers all counts in `registry`.
    pub fn register(&self, registry: &mut Registry) {
        let r = registry;
        let count = |c: &Counter| c.clone();
        r.register("chain_forwards", "Changes sent to the next member of a chain", count(&self.forwards));
        r.register("chain_forward_retries", "Changes sent again to a member", count(&self.forward_retries));
        let wrong = count(&self.wrong_sums);
        r.register("chain_wrong_sums", "Calls whose bytes did not fit their sums", wrong);
        r.register("chain_relays", "Changes sent to the head of a chain", count(&self.relays));
        let waiting = self.waiting.clone();
        r.register("chain_waiting", "Calls that wait for a lease, a chain or a lock", waiting);
        let compared = count(&self.refill_compared);
        r.register_with_unit("chain_refill_compared", "Bytes compared with members", Unit::Bytes, compared);
        let refilled = count(&self.refilled);
        r.register_with_unit("chain_refilled", "Bytes sent to refill members", Unit::Bytes, refilled);
        let by_logs = count(&self.refills_by_logs);
        r.register("chain_refills_by_logs", "Members of chains refilled by dirty logs", by_logs);
        let refilling = self.refilling.clone();
        r.register("chain_refilling", "Chains whose members are being refilled", refilling);
    }
}
