//! A metaserver: the name space over NFS, layouts, and the data of clients without them.
//!
//! In: NFSv3, MOUNT and NFSv4 calls, and the registrations of data servers. Each operation looks up what it
//! needs, turns a change into one [`namespace::Command`] with every choice made (time, placement), has it
//! carried out by the replica, and turns the [`namespace::Reply`] into the protocol's words.
//!
//! It never learns how commands become durable (the replica's), nor what an object looks like on a disk (the
//! data server's).

mod admin;
mod attributes;
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
pub use admin::{ExportChange, ExportReport, StripeReport};
pub use attributes::idmap::Idmap;
pub use data::Data;
pub use data::orphans::CleanReport;
pub use data::reports::Reports;
pub use exports::{Admission, Refusals};
pub use follow::{Follower, Upcalls, upcalls};
pub use metaserver::{Metaserver, MetaserverConfig};
pub use namespace::COLUMNS_MAX;
