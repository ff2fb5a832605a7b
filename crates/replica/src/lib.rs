//! Replicated state machine: orders commands, makes them durable on the members of a group, and applies them.
//!
//! In: a [`namespace::Proposal`], at any member. Out: its [`namespace::Reply`], once a majority has the
//! command on disk and this member has applied it.
//!
//! ```text
//! propose ─▶ leader: consensus ─┬▶ log: append, one sync for all that wait ─┐
//!            (openraft)         └▶ others: the same                         ├▶ a majority has it: apply, answer
//!                                                                           ┘
//! read ────▶ barrier: a read lease (`read_lease`), or one question to the leader for all waiting reads (`read_rounds`)
//!            ─▶ apply up to there ─▶ view
//! ```
//!
//! A group has one log; a single metaserver is a group of one. The log makes a command durable. The store
//! keeps its changes in memory and writes them to disk once a second, together with the index of the last
//! applied command; after a crash the later commands are applied again. A member that lags too far receives a
//! snapshot of the store, in chunks, while commands go on.
//!
//! Members join and leave while commands are carried out (`membership`). A removed member learns of its
//! removal and stops (`consensus::removal`).
//!
//! openraft does the consensus; only this crate names it. This crate adds the log, the state machine, the
//! network, and the rules by which commands and reads find the leader. All of it runs on one thread of its
//! own.
//!
//! | folder | has | imports | | --- | --- | --- | | types, environment, space, runtime | types of openraft,
//! the machine, its free space, the async runtime | | | log | entries and the vote on disk | environment,
//! types | | state | state machine, digests, snapshots, backups | log | | transport | messages between
//! members | state, types | | read | read leases, rounds of reads | types | | consensus | the thread of
//! openraft, its network, liveness | log, state, transport, read | | service | answers to other members'
//! calls | consensus, state, transport, read | | membership | joining, leadership, reconfiguration | service,
//! consensus | | replica | the public handle | all |

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

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

pub use environment::{DiskDelay, Environment, LogRetention, Plan, TimeOfDay};
pub use log::LogError;
pub use log::record::read_and_write;
pub use membership::VOTERS_MAX;
pub use metrics::ReplicaMetrics;
pub use replica::restored::begin_restored;
pub use replica::{Replica, ReplicaConfig, ReplicaError, ReplicaStatus};
pub use runtime::seed_thread;
pub use state::backup::{Backup, BackupError, BackupHead, BackupReader};
pub use state::machine::{AnswerFuture, Applied, BeforeOrder, Observer};
pub use state::panic_guard::{faults, is_guarded};
pub use state::records::applied_next;
pub use transport::members_file::noted_voters;
pub use transport::{CallFuture, Channel, ProbeFuture, Transport, Unreachable};
pub use types::{Member, MemberChange, MemberRole, NodeId};
