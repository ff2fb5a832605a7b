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
        /// First byte of the object.
        pub offset: u64,
        /// Bytes wanted at most.
        pub count: u32,
    }

    /// The results.
    pub struct ResOk {
        /// The data; fewer bytes than wanted only at the end of the object.
        pub payload: Payload,
        /// Whether the object ends at or before the end of this read. The file may go on in other columns.
        pub eof: bool,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Status>;
