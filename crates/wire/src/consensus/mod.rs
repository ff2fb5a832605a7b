//! Private program between the metaservers of one group, for consensus. The `replica` crate encodes the
//! messages; here they are bytes.
//!
//! A connection begins with the [`crate::handshake`]; before its end every procedure except NULL returns
//! [`Status::NotProven`].

pub mod call;
#[cfg(test)]
mod tests;

pub use crate::handshake::Status;

/// RPC program number: "HEG" in ASCII, in the user-defined range (RFC 5531, section 8.4.2).
pub const PROGRAM: u32 = 0x2048_4547;
/// Version of the program.
pub const VERSION: u32 = 1;

crate::rpc::program! {
    /// One message, and its answer.
    3 Call call "CALL";
}
