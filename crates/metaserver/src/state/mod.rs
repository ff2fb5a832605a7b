//! State of clients, beside the state machine: sessions, client leases, recalls, delegations, lock waiters.
//!
//! The state machine has all that lasts. Here is what a metaserver keeps in memory to serve it, and what it
//! does on its own: layouts and delegations are recalled, silent clients expire, waiters are told of a free
//! lock.

pub(crate) mod callback;
pub(crate) mod delegations;
pub(crate) mod idle_layouts;
pub(crate) mod lease;
pub(crate) mod lock_waiters;
pub(crate) mod recall;
pub(crate) mod sessions;
