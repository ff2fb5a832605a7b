//! State of clients, beside the state machine: sessions, client leases, recalls, delegations, lock waiters.
//!
//! All lasting state is in the state machine. This folder has the in-memory state of a metaserver that
//! serves it, and the tasks that a metaserver does on its own: recall of layouts and delegations, lease
//! expiry of silent clients, and notices to lock waiters.

pub(crate) mod brief_opens;
pub(crate) mod callback;
pub(crate) mod delegations;
mod ends;
pub(crate) mod idle_layouts;
pub(crate) mod lease;
pub(crate) mod lock_waiters;
mod propose;
pub(crate) mod recall;
pub(crate) mod returns;
pub(crate) mod sessions;
pub(crate) mod write_delegations;

use std::sync::Arc;

use cluster::Cluster;
use nfs::Metrics;
use tokio::sync::Notify;

use crate::machine::StateMachine;
use crate::state::brief_opens::BriefOpens;
use crate::state::delegations::Delegations;
use crate::state::ends::Ends;
use crate::state::idle_layouts::IdleLayouts;
use crate::state::lease::Leases;
use crate::state::lock_waiters::LockWaiters;
use crate::state::recall::{Granted, Recalls};
use crate::state::returns::Returns;
use crate::state::sessions::Sessions;
use crate::state::write_delegations::Sharing;

/// In-memory state of a metaserver about clients, and the parts that it needs.
pub(crate) struct ClientState {
    pub machine: Arc<StateMachine>,
    pub cluster: Arc<Cluster>,
    pub metrics: Arc<Metrics>,
    pub sessions: Sessions,
    pub leases: Leases,
    pub ends: Ends,
    pub recalls: Recalls,
    pub lock_waiters: LockWaiters,
    pub granted: Granted,
    pub delegations: Arc<Delegations>,
    pub returns: Returns,
    pub sharing: Sharing,
    pub idle_layouts: IdleLayouts,
    pub brief_opens: BriefOpens,
    /// Notified when layouts, delegations or opens were returned.
    pub state_returned: Notify,
    /// Notified when there may be deferred operations to carry out.
    pub deferred_ready: Notify,
}

impl ClientState {
    pub fn new(machine: Arc<StateMachine>, cluster: Arc<Cluster>, metrics: Arc<Metrics>) -> Self {
        Self {
            machine,
            cluster,
            metrics,
            sessions: Sessions::default(),
            leases: Leases::default(),
            ends: Ends::default(),
            recalls: Recalls::default(),
            lock_waiters: LockWaiters::default(),
            granted: Granted::default(),
            delegations: Arc::default(),
            returns: Returns::default(),
            sharing: Sharing::default(),
            idle_layouts: IdleLayouts::default(),
            brief_opens: BriefOpens::default(),
            state_returned: Notify::new(),
            deferred_ready: Notify::new(),
        }
    }

    /// Wakes all tasks that wait for returned state.
    pub fn note_returned(&self) {
        self.state_returned.notify_waiters();
    }
}
