//! Requests of administrators: status, changes of servers, exports, striping, volumes, quotas.

mod exports;
mod nodes;
mod quotas;
pub mod status;
pub(crate) mod stripe;
mod volumes;

pub use crate::data::copies::apply::ApplyReport;
pub use crate::data::target_changes::TargetChange;
pub use exports::{ExportChange, ExportReport};
pub use quotas::{NewLimits, QuotaOf, QuotaReport};
pub use stripe::{NewStripe, StripeReport};
pub use volumes::VolumeReport;
