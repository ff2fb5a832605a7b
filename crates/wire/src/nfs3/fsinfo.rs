//! FSINFO (RFC 1813, section 3.3.19): capabilities and preferred sizes of the server.

use super::{Failure, FileHandle, PostOpAttr, Time};
use crate::xdr_struct;

/// Hard links.
pub const LINK: u32 = 0x01;
/// Symbolic links.
pub const SYMLINK: u32 = 0x02;
/// PATHCONF is the same for every object.
pub const HOMOGENEOUS: u32 = 0x08;
/// SETATTR sets times to `time_delta`.
pub const CAN_SET_TIME: u32 = 0x10;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// Any object of the file system.
        pub fsroot: FileHandle,
    }

    /// The results.
    pub struct ResOk {
        /// Attributes of the object.
        pub obj_attributes: PostOpAttr,
        /// READ: bytes at most.
        pub rtmax: u32,
        /// READ: bytes preferred.
        pub rtpref: u32,
        /// READ: multiples preferred.
        pub rtmult: u32,
        /// WRITE: bytes at most.
        pub wtmax: u32,
        /// WRITE: bytes preferred.
        pub wtpref: u32,
        /// WRITE: multiples preferred.
        pub wtmult: u32,
        /// READDIR: count preferred.
        pub dtpref: u32,
        /// The longest file, in bytes.
        pub maxfilesize: u64,
        /// Granularity of times.
        pub time_delta: Time,
        /// Capabilities: [`LINK`], [`SYMLINK`], [`HOMOGENEOUS`], [`CAN_SET_TIME`].
        pub properties: u32,
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
