//! Protocol machinery: everything about NFS that is not about files.
//!
//! In: a listening socket and the programs to serve on it. Out: each call, decoded as far as its program,
//! with back pressure, sessions and replays already dealt with. The same connections carry calls the other
//! way: call-backs to clients, and calls of our own servers to each other.
//!
//! ```text
//! Server ─accept─▶ Connection ─record─▶ Program::call ──▶ (NFSv4) compound ─SEQUENCE─▶ Session slot ─▶ operations
//!                      ▲                                                                     Backchannel ─┐
//!                      └───────────────────────────── calls to the client ───────────────────────────────┘
//! ```
//!
//! It never learns what a file is.

mod backchannel;
mod compound;
mod connection;
mod limits;
mod metrics;
mod peer;
mod peer_auth;
mod private_program;
mod program;
mod record;
mod reply_cache;
mod server;
mod session;

pub use backchannel::{Backchannel, CallbackError};
pub use compound::{CompoundContext, Nfs4, Nfs4Program, Position};
pub use connection::{CallFailure, Connection, ConnectionId};
pub use limits::{Limits, NoRoom, ReplyRoom};
pub use metrics::{Metrics, OperationLabels, exposition};
pub use peer::{Peer, PeerKey};
pub use peer_auth::PeerAuth;
pub use private_program::{Authenticated, PrivateProgram, encoded};
pub use program::{Answer, Call, Program, Programs};
pub use reply_cache::{CallId, Keep, ReplyCache};
pub use server::{Connections, Server};
pub use session::{RequestFingerprint, Session, SessionLimits, SlotAnswer};
