//! SEEK (RFC 7862, section 15.11): finds the next data or the next hole.

use super::{Stateid, Status};
use crate::xdr_struct;

/// Look for data.
pub const DATA: u32 = 0;
/// Look for a hole; the end of a file is one.
pub const HOLE: u32 = 1;

xdr_struct! {
    /// The arguments. Current handle: the file.
    #[derive(Copy)]
    pub struct Args {
        /// By what right.
        pub stateid: Stateid,
        /// From here.
        pub offset: u64,
        /// [`DATA`] or [`HOLE`]; another is answered NFS4ERR_UNION_NOTSUPP.
        pub what: u32,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// Whether there is none before the end of the file.
        pub eof: bool,
        /// Where it is.
        pub offset: u64,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Status>;
