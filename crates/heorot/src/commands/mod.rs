//! Commands that use a running server, or files only.

pub(crate) mod adopt;
pub(crate) mod backup;
pub(crate) mod boot;
pub(crate) mod check_config;
pub(crate) mod clean;
pub(crate) mod client;
pub(crate) mod export;
pub(crate) mod node;
pub(crate) mod pool;
pub(crate) mod quota;
pub(crate) mod rebalance;
pub(crate) mod restore;
pub(crate) mod settings;
pub(crate) mod snapshot;
pub(crate) mod status;
pub(crate) mod stripe;
pub(crate) mod target;
pub(crate) mod target_add;
pub(crate) mod token;
pub(crate) mod volume;
