//! Between metaservers of one group: what they agree by. The messages themselves are the replica's own; here
//! they are bytes.
//!
//! A connection begins with the [`crate::handshake`]; until then everything but NULL is answered
//! [`Status::NotProven`].

pub mod call;
pub mod procedure;
#[cfg(test)]
mod tests;

pub use procedure::{Call, Procedure, Reply};

pub use crate::handshake::Status;

/// The RPC program number: "HEG" in ASCII, in the range that sites define for themselves (RFC 5531, section
/// 8.4.2).
pub const PROGRAM: u32 = 0x2048_4547;
/// The version of the program that these modules speak.
pub const VERSION: u32 = 1;
