//! DEALLOCATE (RFC 7862, section 15.4): makes a range a hole.

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
