//! Requests of administrators: status, changes of servers, exports, striping, volumes, quotas, snapshots, clones,
//! clients.

mod clients;
mod clones;
mod exports;
mod nodes;
mod quotas;
mod schedules;
mod snapshots;
pub mod status;
pub(crate) mod stripe;
mod volumes;

pub use crate::data::copies::apply::ApplyReport;
pub use crate::data::target_changes::TargetChange;
pub use clients::ClientReport;
pub use exports::{ExportChange, ExportReport};
pub use quotas::{NewLimits, QuotaOf, QuotaReport};
pub use schedules::ScheduleReport;
pub(crate) use snapshots::volume_at;
pub use snapshots::{SnapshotMade, SnapshotReport};
pub use stripe::{NewStripe, StripeReport};
pub(crate) use stripe::{server_failed, walk};
pub use volumes::{OriginReport, VolumeReport};
