//! The cluster as one of its metaservers sees it: members, data servers, the cluster map, service addresses.
//!
//! In: the cluster map, as the state machine has it; calls of the other members; heartbeats of data servers; an
//! operator's orders. Out: which servers live and what each is to do, the settings and exports in force, the
//! targets that take new files, and the service addresses that this machine holds.
//!
//! [`Cluster`] has it all. It changes the map by commands to the [`Group`], and calls the other members by
//! [`wire::peer`]. A machine that wants to become one of the cluster's comes to the [`JoinServer`].
//!
//! It knows no operation of NFS and no state of clients; data servers register with it, but what is on their
//! targets is for the metaserver.

mod answers;
mod backup;
mod begin;
mod change;
pub mod clocks;
mod cluster;
mod data_servers;
mod error;
mod exports;
mod group;
mod join_server;
mod map;
mod members;
mod nodes;
pub mod peers;
mod registration;
mod service_addresses;
mod settings;
mod tokens;

pub use begin::Begin;
pub use change::SettingReport;
pub use cluster::Cluster;
pub use data_servers::{DataServers, HEARTBEAT, NoServer, Reach, TargetReport, Usable};
pub use error::{AdminError, ClusterError};
pub use exports::{
    Access, Consistency, CurrentExports, Export, Exports, NOBODY, Rules, Squash, changed_row, changes_pending,
};
pub use group::Group;
pub use join_server::JoinServer;
pub use map::ThisServer;
pub use members::{Members, serve_members};
pub use nodes::{
    AGREE_TIME_MAX, FilesPage, GroupReport, KnownTarget, Liveness, NodeChange, NodeReport, NodeRoles, id_text,
};
pub use service_addresses::{OpenInterfaces, ServiceAddresses};
pub use settings::{DefaultStripe, SETTINGS, Setting, Settings};
