//! Commands that ask a running server, or that work on files alone.

pub(crate) mod adopt;
pub(crate) mod backup;
pub(crate) mod check_config;
pub(crate) mod clean;
pub(crate) mod export;
pub(crate) mod node;
pub(crate) mod restore;
pub(crate) mod settings;
pub(crate) mod status;
pub(crate) mod stripe;
pub(crate) mod target;
pub(crate) mod token;
