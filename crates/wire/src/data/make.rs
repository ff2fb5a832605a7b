//! MAKE: makes objects, empty and durable. One that is there stays as it is, so that a call can be repeated.
//!
//! No other procedure makes an object, but for TRUNCATE to length 0: an object that READ or WRITE does not
//! find is lost.

use bytes::Bytes;

use super::Status;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The objects.
        pub handles: Vec<Bytes>,
    }
}

/// No results.
pub type ResOk = ();
/// How it ended.
pub type Res = Result<ResOk, Status>;
