//! READ: reads from an object.

use bytes::Bytes;

use super::Status;
use crate::xdr::Payload;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The object.
        pub handle: Bytes,
        /// Offset in the object, in bytes.
        pub offset: u64,
        /// Maximal number of bytes.
        pub count: u32,
    }

    /// The results.
    pub struct ResOk {
        /// Data; shorter than `count` only at the end of the object.
        pub payload: Payload,
        /// True if the object ends at or before the end of this read. The file may go on in other columns.
        pub eof: bool,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
