//! The servers of the cluster, for people: how each is, and what it is to do.

mod change;
mod removal;
mod report;
mod targets;

pub use change::{NodeChange, NodeRoles};
pub(crate) use report::GroupReport;
pub use report::NodeReport;
pub use targets::{FilesPage, KnownTarget};
