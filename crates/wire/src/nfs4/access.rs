//! ACCESS (RFC 8881, section 18.1; RFC 8276, section 8.3 for extended attributes): checks which kinds of
//! access the caller has.

use super::Status;
use crate::xdr_struct;

/// Read a file or directory.
pub const READ: u32 = 0x01;
/// Look up a name in a directory.
pub const LOOKUP: u32 = 0x02;
/// Rewrite data of a file, or change entries of a directory.
pub const MODIFY: u32 = 0x04;
/// Write new data at the end, or add entries.
pub const EXTEND: u32 = 0x08;
/// Remove an entry of a directory.
pub const DELETE: u32 = 0x10;
/// Execute a file.
pub const EXECUTE: u32 = 0x20;
/// Read extended attributes.
pub const XATTR_READ: u32 = 0x40;
/// Write extended attributes.
pub const XATTR_WRITE: u32 = 0x80;
/// List extended attributes.
pub const XATTR_LIST: u32 = 0x100;

xdr_struct! {
    /// The arguments. Current handle: the object.
    #[derive(Copy)]
    pub struct Args {
        /// Kinds of access to check: [`READ`], [`LOOKUP`] and so on.
        pub access: u32,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// Kinds of access that the server can check.
        pub supported: u32,
        /// Kinds of access that the caller has.
        pub access: u32,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
