//! OFFLOAD_STATUS (RFC 7862, section 15.9): how far a copy is that goes on by itself.

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
        /// How it ended, if it has.
        pub complete: Option<Status>,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Status>;
