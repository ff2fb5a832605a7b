//! SEEK: finds the next data or the next hole of an object, or its end.

use bytes::Bytes;

use super::Status;
use crate::{xdr_enum, xdr_struct};

xdr_enum! {
    /// What is looked for.
    pub enum What {
        /// The next data.
        Data = 0,
        /// The next hole. All that lies beyond the end of an object is one.
        Hole = 1,
        /// The end of the object; where to look from does not matter.
        End = 2,
    }
}

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The object.
        pub handle: Bytes,
        /// From this byte of the object on.
        pub offset: u64,
        /// What.
        pub what: What,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// Where it begins, in the object; none: the object has no more data.
        pub found: Option<u64>,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Status>;
