//! Admin interface: HTTP on a Unix socket and over TCP, and its client for the commands.

pub(crate) mod access;
pub(crate) mod api;
pub(crate) mod backup;
pub(crate) mod balance;
pub(crate) mod boot;
pub(crate) mod client;
pub(crate) mod clients;
pub(crate) mod http;
pub(crate) mod metrics;
pub(crate) mod nodes;
pub(crate) mod place;
pub(crate) mod pools;
pub(crate) mod quotas;
pub(crate) mod server;
pub(crate) mod settings;
pub(crate) mod snapshots;
pub(crate) mod socket;
pub(crate) mod stripe;
pub(crate) mod targets;
pub(crate) mod token;
pub(crate) mod tokens;
pub(crate) mod volumes;
