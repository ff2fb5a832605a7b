//! TRUNCATE: shortens an object; it never grows one.

use bytes::Bytes;

use super::Status;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The object.
        pub handle: Bytes,
        /// Its new length in bytes; what it grows by reads as zeros.
        pub len: u64,
    }
}

/// No results.
pub type ResOk = ();
/// How it ended.
pub type Res = Result<ResOk, Status>;
