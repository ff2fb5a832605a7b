//! NFS state: clients, their sessions, opens, locks, layouts and delegations (RFC 8881, chapters 8 to
//! 12).

pub(crate) mod client;
mod conflicts;
pub(crate) mod delegation;
pub(crate) mod layout_state;
pub(crate) mod leftovers;
pub(crate) mod lock;
pub(crate) mod open;
mod ranges;
pub(crate) mod session;
mod table;

pub(crate) use open::union as union_of_opened;
pub(crate) use table::{client_use_of, index_key, use_of};
