//! REMOVE: removes objects. One that is not there is no failure, so that a call can be repeated.

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
