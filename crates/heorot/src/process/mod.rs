//! The process that servers run in.

pub(crate) mod memory;
pub(crate) mod notify;
pub(crate) mod panics;
