//! SEEK: finds the next data or the next hole of an object, or its end.

use bytes::Bytes;

use super::Status;
use crate::{xdr_enum, xdr_struct};

xdr_enum! {
    /// Kind of the searched position.
    pub enum What {
        /// Next data.
        Data = 0,
        /// Next hole. Everything beyond the end of an object is a hole.
        Hole = 1,
        /// End of the object; the offset is ignored.
        End = 2,
    }
}

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The object.
        pub handle: Bytes,
        /// Start of the search: offset in the object, in bytes.
        pub offset: u64,
        /// Kind of the searched position.
        pub what: What,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// Offset in the object, in bytes; none: no more data.
        pub found: Option<u64>,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
