//! A metaserver: the name space over NFS, layouts, and the data of clients without them.
//!
//! In: NFSv3, MOUNT and NFSv4 calls, and the registrations of data servers. Each operation looks up the
//! inodes that it needs, turns a change into one [`namespace::Command`] with every choice made (time,
//! placement), proposes it to the replica, and turns the [`namespace::Reply`] into a reply of the protocol.
//!
//! A metaserver does not know how commands become durable (the replica does), nor the format of an object on
//! disk (the data server does).

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod admin;
mod attributes;
pub mod boot;
mod cluster_program;
mod compound;
mod consistency;
mod data;
mod errors;
mod exports;
mod files;
mod follow;
mod machine;
mod metaserver;
mod mount3;
mod names;
mod nfs3;
mod nfs4;
mod ops;
mod ops3;
mod peer_program;
mod state;
mod user;

pub use admin::status;
pub use admin::{
    ApplyReport, ClientReport, ExportChange, ExportReport, NewStripe, ScheduleReport, SnapshotMade,
    SnapshotReport, StripeReport, TargetChange, VolumeReport,
};
pub use admin::{NewLimits, QuotaOf, QuotaReport};
pub use attributes::idmap::Idmap;
pub use data::Data;
pub use data::orphans::CleanReport;
pub use data::reports::Reports;
pub use exports::{Admission, Refusals};
pub use follow::{Follower, Upcalls, upcalls};
pub use metaserver::{Metaserver, MetaserverConfig};
pub use namespace::COLUMNS_MAX;
