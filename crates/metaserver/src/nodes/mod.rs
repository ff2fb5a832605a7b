//! The servers of the cluster, for people: how each is, and what it is to do.

mod change;
mod report;

pub use change::NodeChange;
pub(crate) use report::GroupReport;
pub use report::NodeReport;
