//! CLONE (RFC 7862, section 15.13): makes a range of one file share the data of another.

use super::{Stateid, Status};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Saved handle: the source. Current handle: the target.
    #[derive(Copy)]
    pub struct Args {
        /// Stateid for the reads of the source.
        pub src_stateid: Stateid,
        /// Stateid for the writes to the target.
        pub dst_stateid: Stateid,
        /// First byte in the source.
        pub src_offset: u64,
        /// First byte in the target.
        pub dst_offset: u64,
        /// Bytes; 0 is to the end of the source.
        pub count: u64,
    }
}

/// No results.
pub type ResOk = ();

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
