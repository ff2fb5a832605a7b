//! The servers of the cluster, for people: how each is, and what it is to do.

pub(crate) mod change;
mod group_report;
mod report;
mod targets;
mod watch;

pub use change::{NodeChange, NodeRoles};
pub(crate) use group_report::GroupReport;
pub use report::{Liveness, NodeReport};
pub use targets::{FilesPage, KnownTarget};
