//! Servers as this program runs them: configuration, registration and reload.

pub(crate) mod address_holder;
pub(crate) mod ds;
pub(crate) mod heartbeat;
pub(crate) mod idmap;
pub(crate) mod known_metaservers;
pub(crate) mod mds;
pub(crate) mod more_targets;
pub(crate) mod rebuild;
pub(crate) mod reload;
