//! NFS protocol machinery that does not depend on files: RPC connections, sessions, COMPOUND, back pressure.
//!
//! In: a network to listen on (TCP, or a simulated one) and the programs to serve on it. Out: each call, decoded
//! up to its program, after back pressure, session slot and replay look-up. The same connections carry calls
//! in the other direction: callbacks to clients, and calls between servers of the cluster.
//!
//! ```text
//! Server ─accept─▶ Connection ─record─▶ Program::call ──▶ (NFSv4) compound ─SEQUENCE─▶ session slot ─▶ ops
//!                      ▲                                                             Backchannel ─┐
//!                      └───────────────────── calls to the client ─────────────────────────────────┘
//! ```
//!
//! This crate never handles files.

mod backchannel;
mod compound;
mod connection;
mod held_addresses;
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
mod stream;
mod tcp;

pub use backchannel::{Backchannel, CallbackError};
pub use compound::{CompoundContext, Nfs4, Nfs4Program, Position};
pub use connection::{CallFailure, Connection, ConnectionId};
pub use held_addresses::{ConnectedClients, HeldAddresses, OpenInterfaces, open_interfaces};
pub use limits::{HELD_CALLS_MAX, Limits, NoRoom, ReplyRoom};
pub use metrics::{Metrics, OperationLabels, exposition};
pub use peer::{Peer, PeerKey};
pub use peer_auth::PeerAuth;
pub use private_program::{Authenticated, PrivateProgram, encoded};
pub use program::{Answer, Call, Program, Programs};
pub use reply_cache::{CallId, Keep, ReplyCache};
pub use server::{Connections, Server};
pub use session::{RequestFingerprint, Session, SessionLimits, SlotAnswer};
pub use stream::{Stream, StreamFuture, StreamListener, StreamNetwork, StreamReader, StreamWriter};
pub use tcp::{TcpNetwork, listen};
