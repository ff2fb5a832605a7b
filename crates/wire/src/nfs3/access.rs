//! ACCESS (RFC 1813, section 3.3.4): checks which kinds of access the caller has.

use super::{Failure, FileHandle, PostOpAttr};
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

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The object.
        pub object: FileHandle,
        /// Kinds of access to check: [`READ`], [`LOOKUP`] and so on.
        pub access: u32,
    }

    /// The results.
    pub struct ResOk {
        /// Attributes of the object.
        pub obj_attributes: PostOpAttr,
        /// Kinds of access that the caller has.
        pub access: u32,
    }

    /// Results of a failure.
    #[derive(Default)]
    pub struct ResFail {
        /// Attributes of the object.
        pub obj_attributes: PostOpAttr,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Failure<ResFail>>;
