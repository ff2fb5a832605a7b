//! OFFLOAD_STATUS (RFC 7862, section 15.9): progress of an asynchronous copy.

use super::{Stateid, Status};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the target.
    #[derive(Copy)]
    pub struct Args {
        /// The copy.
        pub stateid: Stateid,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// Bytes copied.
        pub count: u64,
        /// Final status, if the copy has ended.
        pub complete: Option<Status>,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
