//! File data at the data servers: placement, objects, and the data path of clients without a layout.
//!
//! ```text
//! placement ─▶ objects made ─▶ proxy (READ, WRITE) · ranges · copy ─▶ deferred operations ─▶ orphan scan
//! ```

mod call;
pub(crate) mod claim;
pub(crate) mod copies;
pub(crate) mod copy;
pub(crate) mod deferred;
pub(crate) mod hold;
mod inode_locks;
mod limits;
pub(crate) mod migration;
mod operator;
pub(crate) mod orphans;
mod own_objects;
mod place;
pub(crate) mod placement;
mod promotion;
pub(crate) mod proxy;
pub(crate) mod ranges;
mod recall;
pub(crate) mod relocation;
mod removal;
pub(crate) mod reports;
mod settling;
mod space_used;
pub(crate) mod target_changes;
pub(crate) mod unsettled;

use std::sync::Arc;

use cluster::Cluster;
use namespace::TargetId;
use nfs::Metrics;

use crate::data::copies::Used;
use crate::data::copies::apply::LastApply;
use crate::data::deferred::backlog::Backlog;
use crate::data::inode_locks::InodeLocks;
use crate::data::limits::Reservations;
use crate::data::own_objects::ObjectCopies;
use crate::data::placement::Placement;
use crate::data::proxy::WriteVerifier;
use crate::data::reports::Reports;
use crate::data::settling::Settling;
use crate::data::unsettled::Rounds;
use crate::machine::StateMachine;
use crate::state::ClientState;

/// File data: the operations of a metaserver at the data servers.
pub struct Data {
    pub(crate) machine: Arc<StateMachine>,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) state: Arc<ClientState>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) placement: Placement,
    /// Locks for copies and truncations of a file's content, at the leader. Two at a time would be wrong, not only
    /// wasteful: the slower one could overwrite, or cut off, data that a client wrote after the faster one was done.
    pub(crate) content_locks: InodeLocks,
    pub(crate) used_chains: Used,
    pub(crate) last_apply: LastApply,
    /// Copies of objects that snapshots show, under way at the leader.
    pub(crate) object_copies: ObjectCopies,
    /// Locks of files whose columns get other targets: no layout is granted meanwhile.
    pub(crate) relocations: InodeLocks,
    pub(crate) rounds: Rounds,
    pub(crate) settling: Settling,
    /// Writes under way that limits have room for.
    pub(crate) reservations: Reservations,
    pub(crate) write_verifier: WriteVerifier,
    pub(crate) backlog: Backlog,
    pub(crate) reports: Arc<Reports>,
}

impl Data {
    pub(crate) fn new(
        machine: Arc<StateMachine>,
        cluster: Arc<Cluster>,
        state: Arc<ClientState>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            write_verifier: WriteVerifier::new(machine.entropy.u64()),
            machine,
            cluster,
            state,
            metrics,
            placement: Placement::default(),
            content_locks: InodeLocks::default(),
            used_chains: Used::default(),
            last_apply: LastApply::default(),
            object_copies: ObjectCopies::default(),
            relocations: InodeLocks::default(),
            rounds: Rounds::default(),
            settling: Settling::default(),
            reservations: Reservations::default(),
            backlog: Backlog::default(),
            reports: Arc::default(),
        }
    }

    /// Tries deferred operations of these targets, and files to settle, at once: their data server answers
    /// again.
    pub(crate) fn retry_now(&self, targets: &[TargetId]) {
        self.backlog.retry_now(targets);
        self.settling.retry_now(targets);
        self.state.deferred_ready.notify_one();
    }
}
