//! Between servers: registration with the metaservers' leader, and questions about files.
//!
//! ```text
//! caller                                  server
//!   HELLO cluster, client nonce  ─────▶
//!                                ◀─────  server nonce, server proof      caller: is it one of ours?
//!   PROVE client proof           ─────▶                                  server: is it one of ours?
//!                                ◀─────  ()
//!   REGISTER, SIZE, STATUS       ─────▶  until then answered NotProven
//! ```
//!
//! [`crate::data`] begins in the same way.

pub mod cluster_status;
pub mod hello;
pub mod null;
pub mod procedure;
pub mod prove;
pub mod register;
pub mod size;
pub mod status;
#[cfg(test)]
mod tests;

pub use hello::{Nonce, Proof, client_proof, proof_matches, server_proof};
pub use procedure::{Call, Procedure, Reply};
pub use status::Status;

pub use crate::data::{TargetCondition, TargetSpace};

/// The RPC program number: "HEC" in ASCII, in the range that sites define for themselves (RFC 5531, section 8.4.2).
pub const PROGRAM: u32 = 0x2048_4543;
/// The version of the program that these modules speak.
pub const VERSION: u32 = 5;

/// How a procedure of either program ended: its results, or why there are none.
pub type Res<T> = Result<T, Status>;
