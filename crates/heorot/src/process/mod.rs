//! Process of the servers.

pub(crate) mod descriptor;
pub(crate) mod fd_store;
pub(crate) mod memory;
pub(crate) mod notify;
pub(crate) mod panics;
