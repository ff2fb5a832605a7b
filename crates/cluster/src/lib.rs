//! The cluster in the view of one metaserver: members, data servers, the cluster map, service addresses.
//!
//! In: the cluster map, as the state machine has it; calls of the other members; heartbeats of data servers;
//! an operator's orders. Out: the liveness and the administrative state of each server, the settings and
//! exports in force, the targets that take new files, and the service addresses that this machine holds.
//!
//! [`Cluster`] is the central type. It changes the map by commands to the [`Group`], and calls the other
//! members by [`wire::peer`]. A machine that joins the cluster calls the [`JoinServer`].
//!
//! This crate knows no operation of NFS and no state of clients. Data servers register here, but the objects
//! on their targets are the concern of the metaserver.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod answers;
mod backup;
mod begin;
mod chains;
mod change;
pub mod clocks;
mod cluster;
mod data_servers;
mod dead_data_servers;
mod error;
mod exports;
mod group;
mod join_server;
mod map;
mod members;
mod nodes;
pub mod peers;
mod pools;
mod registration;
mod service_addresses;
mod settings;
mod tokens;

pub use begin::Begin;
pub use chains::lease::HEARTBEAT_OF_MEMBERS;
pub use chains::rebalance::{BalanceState, PoolBalance, WHY_IN_VAIN};
pub use change::SettingReport;
pub use cluster::Cluster;
pub use data_servers::{DataServers, HEARTBEAT, NoServer, Reach, Refilling, TargetReport, Usable};
pub use error::{AdminError, ClusterError};
pub use exports::{
    ANONYMOUS_ID, Access, Consistency, CurrentExports, Export, Exports, Rules, Squash, changed_row,
    changes_pending,
};
pub use group::Group;
pub use join_server::JoinServer;
pub use map::ThisServer;
pub use members::{Members, serve_members};
pub use nodes::{
    AGREE_TIME_MAX, FilesPage, GroupReport, KnownTarget, Liveness, NodeChange, NodeReport, NodeRoles, id_text,
};
pub use pools::PoolReport;
pub use registration::Registered;
pub use service_addresses::ServiceAddresses;
pub use settings::{DefaultStripe, SETTINGS, Setting, Settings, verify, verify_text};
