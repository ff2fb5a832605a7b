//! The leader's word about chains, and this server's report.

use std::sync::Arc;
use std::time::Duration;

use wire::cluster::register::{LeftChain, Refilled};
use wire::data;

use super::RefillProgress;
use crate::DataServer;

impl DataServer {
    /// Random number of this run of the process, for its registration: what an earlier run had not synced is
    /// lost.
    #[must_use]
    pub fn process(&self) -> u64 {
        self.process
    }

    /// Version of the cluster map whose chains this server knows, for its registration; 0: none.
    #[must_use]
    pub fn chains_of_map(&self) -> u64 {
        self.chains.table.map_version()
    }

    /// Members that this server has refilled as the head of their chains, for its registration. Each is
    /// reported until its chain has a later version, once that version is in the records of the head's target.
    #[must_use]
    pub fn refilled(&self) -> Vec<Refilled> {
        self.targets.write_chains();
        let mut refilled = self.chains.refilled_members();
        let head = |chain| Some(self.chains.table.get(chain)?.head()?.target);
        refilled.retain(|Refilled { chain, version, .. }| {
            head(*chain).is_some_and(|head| self.targets.is_chain_written(head, *chain, *version))
        });
        refilled
    }

    /// Members here that have left their chains, for its registration: they lack data, or their targets cannot be
    /// written. Each is reported until its chain has a later version. To be called after [`DataServer::space`].
    #[must_use]
    pub fn left_chains(&self) -> Vec<LeftChain> {
        self.targets.write_chains();
        let mut left = self.chains.left_chains();
        // Not before a file says what was lost: the next process must know it.
        left.retain(|left| {
            let target = self.targets.get(left.target);
            target.is_none_or(|target| !target.chain_records().is_about_to_say_loss(left.chain))
        });
        left
    }

    /// How far the refilling of members of the chains that this server leads is, for its registration: of those that are
    /// compared whole.
    #[must_use]
    pub fn refill_progress(&self) -> RefillProgress {
        self.chains.refill_progress(&self.targets)
    }

    /// Sets the limit of all refills of this server, in bytes per second; by default [`REFILL_RATE`](crate::REFILL_RATE).
    pub fn set_refill_rate(&self, rate: u64) {
        self.chains.set_refill_rate(rate);
    }

    /// Refills members of the chains that this server leads, for ever: a task of its own.
    pub fn refill_members(&self) -> impl Future<Output = ()> + Send + 'static {
        Arc::clone(&self.chains).refill(Arc::clone(&self.targets))
    }

    /// The time from which a lease counts: the time by the monotonic clock, to be asked for before a
    /// registration is sent.
    #[must_use]
    pub fn lease_begins(&self) -> Duration {
        self.clock.monotonic()
    }

    /// Takes over chains. Of each chain only a later version than the known one counts.
    pub fn tell_chains(&self, chains: &[data::Chain]) {
        self.targets.note_chains(chains, false);
        self.targets.note_losses(&self.chains.table.tell(chains));
    }

    /// Takes over all chains of this server's targets, of this version of the cluster map, from an answer to
    /// a registration.
    pub fn tell_all_chains(&self, map_version: u64, chains: &[data::Chain]) {
        self.targets.note_chains(chains, map_version > self.chains.table.map_version());
        self.targets.note_losses(&self.chains.table.tell_all(map_version, chains));
    }

    /// Extends the lease of the members here to `time` after `from`, which [`DataServer::lease_begins`]
    /// returned.
    pub fn extend_lease(&self, from: Duration, time: Duration) {
        self.chains.table.extend_lease(from, time);
    }

    /// Gives the lease up: the members here serve nothing from now on. Before the server stops to listen: then the
    /// leader takes its process for dead, and others go on without it.
    pub fn give_up_lease(&self) {
        self.chains.table.give_up_lease();
    }

    /// Counts of the chains.
    #[must_use]
    pub fn chain_metrics(&self) -> &Arc<crate::ChainMetrics> {
        self.chains.metrics()
    }
}
