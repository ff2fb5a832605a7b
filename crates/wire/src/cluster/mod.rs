//! Private program from data servers to metaservers: registration with the leader, and queries about files.
//!
//! A connection begins with [`crate::handshake`].

pub mod cluster_status;
pub mod procedure;
pub mod register;
pub mod size;
#[cfg(test)]
mod tests;

pub use procedure::{Call, Procedure, Reply};

pub use crate::data::{TargetCondition, TargetSpace};
pub use crate::handshake::Status;

/// RPC program number: "HEC" in ASCII, in the user-defined range (RFC 5531, section 8.4.2).
pub const PROGRAM: u32 = 0x2048_4543;
/// Version of the program.
pub const VERSION: u32 = 5;

/// Results of a procedure, or its error status.
pub type Res<T> = Result<T, Status>;
