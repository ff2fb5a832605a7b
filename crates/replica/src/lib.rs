//! Puts commands in order and makes them durable, then applies them.
//!
//! In: a [`namespace::Proposal`]. Out: its [`namespace::Reply`], after the command is on disk and applied.
//!
//! ```text
//! propose ─▶ queue ─▶ one thread: drain ─▶ log: append all, one sync ─▶ store: apply all, one batch ─▶ answer all
//! ```
//!
//! That is group commit: while one batch is synced the next one gathers, so that the cost of a sync is shared by all
//! who wait. The log is what makes a command durable. The store keeps changes in memory, and once a second a
//! thread of its own brings them to disk in one commit; it keeps the index of the last command applied in the same batch
//! as what that command did. After a crash the commands behind that index are applied again.
//!
//! This is a group of one. A group of several puts consensus between the queue and the log.

mod flusher;
mod log;
mod machine;
pub mod record;
mod tail;

pub use log::LogError;
pub use machine::{Replica, ReplicaConfig, ReplicaError};
