//! What administrators ask of a metaserver: status, settings, exports, striping, backups.

pub(crate) mod change;
mod nodes;
pub(crate) mod settings;
pub mod status;
pub(crate) mod stripe;

pub use change::{ExportChange, ExportReport, SettingReport};
pub use stripe::{AdminError, StripeReport};
