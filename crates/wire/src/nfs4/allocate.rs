//! ALLOCATE (RFC 7862, section 15.1): reserves space for a range.

use super::{Stateid, Status};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the file.
    #[derive(Copy)]
    pub struct Args {
        /// By what right.
        pub stateid: Stateid,
        /// First byte.
        pub offset: u64,
        /// Bytes.
        pub length: u64,
    }
}

/// No results.
pub type ResOk = ();

/// How it ended.
pub type Res = Result<ResOk, Status>;
