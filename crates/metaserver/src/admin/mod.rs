//! Requests of administrators: status, changes of servers, exports, striping, volumes.

mod exports;
mod nodes;
pub mod status;
pub(crate) mod stripe;
mod volumes;

pub use crate::data::copies::apply::ApplyReport;
pub use crate::data::target_changes::TargetChange;
pub use exports::{ExportChange, ExportReport};
pub use stripe::{NewStripe, StripeReport};
pub use volumes::VolumeReport;
