//! Between servers: registration with the metaservers' leader, and questions about files.
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

/// The RPC program number: "HEC" in ASCII, in the range that sites define for themselves (RFC 5531, section
/// 8.4.2).
pub const PROGRAM: u32 = 0x2048_4543;
/// The version of the program that these modules speak.
pub const VERSION: u32 = 5;

/// How a procedure of either program ended: its results, or why there are none.
pub type Res<T> = Result<T, Status>;
