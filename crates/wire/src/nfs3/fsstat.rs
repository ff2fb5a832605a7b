//! FSSTAT (RFC 1813, section 3.3.18): space and files, used and free.

use super::{Failure, FileHandle, PostOpAttr};
use crate::xdr_struct;

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
        /// Bytes in all.
        pub tbytes: u64,
        /// Bytes free.
        pub fbytes: u64,
        /// Bytes free for the caller.
        pub abytes: u64,
        /// Files in all.
        pub tfiles: u64,
        /// Files free.
        pub ffiles: u64,
        /// Files free for the caller.
        pub afiles: u64,
        /// Seconds for which these values will not change; 0 when unknown.
        pub invarsec: u32,
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
