//! A metaserver: the name space over NFS, layouts, and the data of clients without them.
//!
//! In: NFSv3, MOUNT and NFSv4 calls, and the registrations of data servers. Each operation looks up what it needs,
//! turns a change into one [`namespace::Command`] with every choice made (time, placement), has it carried out by the
//! replica, and turns the [`namespace::Reply`] into the protocol's words.
//!
//! It never learns how commands become durable (the replica's), nor what an object looks like on a disk (the data
//! server's).

mod admin;
mod admin_settings;
mod admission;
mod attributes;
mod attributes3;
mod begin;
mod callback;
mod clocks;
mod cluster_map;
mod cluster_program;
mod consistency;
mod copy;
mod data_servers;
mod deferred;
mod delegations;
mod errors;
mod exports;
mod idle_layouts;
mod idmap;
mod join_server;
mod lease;
mod locations;
mod lock_waiters;
mod members;
mod metaserver;
mod migration;
mod mount3;
mod names;
mod nfs3;
mod nfs4;
mod nodes;
mod ops;
mod ops3;
mod orphans;
mod placement;
mod proxy;
mod pseudo;
mod ranges;
mod recall;
mod refusals;
mod relocation;
mod reports;
mod service_addresses;
mod sessions;
mod setattr;
mod settings;
pub mod status;
mod tokens;
mod unsettled;
mod upcalls;
mod user;
mod xattrs;

pub use admin::{AdminError, StripeReport};
pub use admin_settings::{ExportChange, ExportReport, SettingReport};
pub use begin::Begin;
pub use cluster_map::ThisServer;
pub use consistency::Consistency;
pub use data_servers::TargetReport;
pub use exports::{Access, Export, Exports, NOBODY, Rules, Squash};
pub use idmap::Idmap;
pub use join_server::{CLOCKS_DIFFER_MAX, JoinServer};
pub use members::{Members, serve_members};
pub use metaserver::{Metaserver, MetaserverConfig};
pub use nodes::{FilesPage, KnownTarget, NodeChange, NodeReport, NodeRoles};
pub use orphans::CleanReport;
pub use placement::{COLUMNS_MAX, DefaultStripe};
pub use refusals::Refusals;
pub use reports::Reports;
pub use service_addresses::{OpenInterfaces, ServiceAddresses};
pub use settings::{SETTINGS, Setting, Settings, setting};
pub use upcalls::{Follower, Upcalls, upcalls};
