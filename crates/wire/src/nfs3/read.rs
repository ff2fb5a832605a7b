//! READ (RFC 1813, section 3.3.6): reads from a file.

use super::{Failure, FileHandle, PostOpAttr};
use crate::xdr::Payload;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The file.
        pub file: FileHandle,
        /// First byte.
        pub offset: u64,
        /// Maximal number of bytes.
        pub count: u32,
    }

    /// The results.
    pub struct ResOk {
        /// Attributes of the file.
        pub file_attributes: PostOpAttr,
        /// Bytes returned: the length of `data`.
        pub count: u32,
        /// True if the file ends at the end of `data`.
        pub eof: bool,
        /// The data.
        pub data: Payload,
    }

    /// Results of a failure.
    #[derive(Default)]
    pub struct ResFail {
        /// Attributes of the file.
        pub file_attributes: PostOpAttr,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Failure<ResFail>>;
