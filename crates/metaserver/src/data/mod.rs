//! File data at the data servers: placement, objects, the path of data for clients without a layout.
//!
//! ```text
//! placement ─▶ objects made ─▶ proxy (READ, WRITE) · ranges · copy ─▶ deferred operations ─▶ orphan scan
//! ```

pub(crate) mod copy;
pub(crate) mod data_servers;
pub(crate) mod deferred;
pub(crate) mod migration;
pub(crate) mod orphans;
pub(crate) mod placement;
pub(crate) mod proxy;
pub(crate) mod ranges;
pub(crate) mod relocation;
pub(crate) mod reports;
pub(crate) mod unsettled;
