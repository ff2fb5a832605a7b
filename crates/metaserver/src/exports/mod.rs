//! Exports: the directories that each client sees, and their rules.

pub(crate) mod admission;
pub(crate) mod pseudo;
pub(crate) mod refusals;

pub use refusals::Refusals;

use std::sync::Arc;

use cluster::Cluster;

use crate::exports::pseudo::DirectoryNames;
use crate::machine::StateMachine;
use crate::state::ClientState;

/// Admission of calls: exports, the pseudo file system above them, and counts of refused calls.
pub struct Admission {
    pub(crate) machine: Arc<StateMachine>,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) state: Arc<ClientState>,
    pub(crate) directory_names: DirectoryNames,
    pub(crate) refusals: Refusals,
}
