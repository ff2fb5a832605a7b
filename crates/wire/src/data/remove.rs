//! REMOVE: removes objects. A missing object is not an error, so that a call can be retried.

use bytes::Bytes;

use super::Status;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The objects.
        pub handles: Vec<Bytes>,
        /// Only those that were left behind: of a chain that the target is no member of now, or without copies and
        /// unchanged for an hour.
        pub left_behind: bool,
    }
}

/// No results.
pub type ResOk = ();
/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
