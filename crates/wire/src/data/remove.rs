//! REMOVE: removes objects. A missing object is not an error, so that a call can be retried.

use bytes::Bytes;

use super::Status;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The objects.
        pub handles: Vec<Bytes>,
        /// Only those whose chain the target has left: it has copies, and the target is no member now.
        pub left_behind: bool,
    }
}

/// No results.
pub type ResOk = ();
/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
