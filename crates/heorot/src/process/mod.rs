//! Process of the servers.

pub(crate) mod memory;
pub(crate) mod notify;
pub(crate) mod panics;
