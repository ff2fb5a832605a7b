//! READ (RFC 8881, section 18.22): reads from a file.

use super::{Stateid, Status};
use crate::xdr::Payload;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the file.
    #[derive(Copy)]
    pub struct Args {
        /// Stateid of the open, lock or delegation, or a special stateid.
        pub stateid: Stateid,
        /// First byte.
        pub offset: u64,
        /// Maximal number of bytes.
        pub count: u32,
    }

    /// The results.
    pub struct ResOk {
        /// True if the file ends at the end of `data`.
        pub eof: bool,
        /// The data.
        pub data: Payload,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
