//! The cluster: its members, nodes, map and service addresses, and what metaservers ask one another.

pub(crate) mod begin;
pub(crate) mod clocks;
pub(crate) mod join_server;
pub(crate) mod map;
pub(crate) mod members;
pub(crate) mod nodes;
pub(crate) mod program;
pub(crate) mod service_addresses;
pub(crate) mod tokens;
pub(crate) mod upcalls;
