//! Private program from metaservers to data servers: file data for clients without pNFS, and maintenance of
//! objects.
//!
//! A connection begins with the [`crate::handshake`]; before its end every procedure except NULL returns
//! [`Status::NotProven`]. Handles are sealed [`crate::handle::ObjectHandle`]s, as clients have them.

pub mod allocate;
pub mod commit;
pub mod copy;
pub mod list;
pub mod make;
pub mod procedure;
pub mod punch;
pub mod read;
pub mod read_plus;
pub mod remove;
pub mod seek;
pub mod stat;
pub mod status;
#[cfg(test)]
mod tests;
pub mod truncate;
pub mod write;

pub use copy::Piece;
pub use list::{ObjectEntry, ObjectName};
pub use procedure::{Call, Procedure, Reply};
pub use read_plus::Run;
pub use stat::ObjectStat;
pub use status::{TargetCondition, TargetSpace};

pub use crate::handshake::Status;

/// RPC program number: "HEA" in ASCII, in the user-defined range (RFC 5531, section 8.4.2).
pub const PROGRAM: u32 = 0x2048_4541;
/// Version of the program.
pub const VERSION: u32 = 4;

/// Write verifier: changes when a data server may have lost unstable writes.
pub type WriteVerifier = [u8; 8];
