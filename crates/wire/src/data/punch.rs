//! PUNCH: makes a range of an object a hole, durably. The object keeps its length.

use bytes::Bytes;

use super::Status;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The object. One that is not there is a hole already.
        pub handle: Bytes,
        /// First byte of the object.
        pub offset: u64,
        /// Bytes.
        pub len: u64,
    }
}

/// No results.
pub type ResOk = ();
/// How it ended.
pub type Res = Result<ResOk, Status>;
