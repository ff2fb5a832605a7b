//! The replicated state: the state machine over the store, the digest of its state, snapshots and backups.

pub(crate) mod backup;
pub(crate) mod commit;
pub(crate) mod digest;
pub(crate) mod install;
pub(crate) mod integrity;
pub(crate) mod machine;
#[cfg(test)]
mod openraft_suite;
pub(crate) mod panic_guard;
pub(crate) mod records;
pub(crate) mod snapshot;
