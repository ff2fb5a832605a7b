//! MAKE: creates objects, empty and durable. An existing object stays unchanged, so that a call can be
//! retried; but one from before the handle's epoch is emptied: its data are of an earlier placement.
//!
//! No other procedure creates an object, except TRUNCATE to length 0: an object that READ or WRITE does not
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
/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
