//! The servers of the cluster, for people: the condition of each, and its changes.

mod change;
mod group_report;
mod report;
mod targets;
mod watch;

pub use change::{AGREE_TIME_MAX, NodeChange, NodeRoles, id_text};
pub use group_report::GroupReport;
pub use report::{Liveness, NodeReport};
pub use targets::{FilesPage, KnownTarget};
