//! Puts commands in order and makes them durable, on all members of a group, then applies them.
//!
//! In: a [`namespace::Proposal`], at any member. Out: its [`namespace::Reply`], after the command is on the disks of a
//! majority, and applied where it was proposed.
//!
//! ```text
//! propose ─▶ leader: consensus ─┬▶ log: append, one sync for all that wait ─┐
//!            (openraft)         └▶ others: the same                         ├▶ a majority has it: apply, answer
//!                                                                           ┘
//! read ────▶ barrier: a read lease (`read_lease`), or one question to the leader for all who wait (`read_rounds`)
//!            ─▶ apply up to there ─▶ view
//! ```
//!
//! One group has one log; a single metaserver is a group of one. The log is what makes a command durable. The store keeps
//! changes in memory and is brought to disk once a second; with what a command did it keeps the index of the last command
//! applied, and after a crash the commands behind that are applied again. A member that is too far behind is sent a
//! snapshot of the store, in chunks, while commands go on.
//!
//! Members come and go while commands are carried out (`membership`); one that was removed finds out and stops (`removal`).
//!
//! Consensus is openraft's; this crate is the only one that names it. Ours are log, state machine, network, and the rules
//! by which commands and reads find the leader. It all runs on a thread of its own.

mod consensus;
mod environment;
mod log;
mod membership;
mod metrics;
mod read;
mod replica;
mod runtime;
mod service;
mod space;
mod state;
mod transport;
mod types;

pub use environment::{Apply, DiskDelay, Environment, LogRetention, TimeOfDay};
pub use log::LogError;
pub use log::record::read_and_write;
pub use membership::VOTERS_MAX;
pub use metrics::ReplicaMetrics;
pub use replica::restored::begin_restored;
pub use replica::{Replica, ReplicaConfig, ReplicaError, ReplicaStatus};
pub use runtime::seed_thread;
pub use state::backup::{Backup, BackupError, BackupHead, BackupReader};
pub use state::machine::{AnswerFuture, Observer};
pub use state::panic_guard::{faults, is_guarded};
pub use state::records::applied_next;
pub use transport::members_file::noted_voters;
pub use transport::{CallFuture, Channel, ProbeFuture, Transport, Unreachable};
pub use types::{Member, MemberChange, MemberRole, NodeId};
