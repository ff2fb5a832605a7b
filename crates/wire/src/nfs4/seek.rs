//! SEEK (RFC 7862, section 15.11): finds the next data or the next hole.

use super::{Stateid, Status};
use crate::xdr_struct;

/// Search for data.
pub const DATA: u32 = 0;
/// Search for a hole; the end of a file is one.
pub const HOLE: u32 = 1;

xdr_struct! {
    /// The arguments. Current handle: the file.
    #[derive(Copy)]
    pub struct Args {
        /// Stateid of the open, lock or delegation, or a special stateid.
        pub stateid: Stateid,
        /// Start of the search, in bytes.
        pub offset: u64,
        /// [`DATA`] or [`HOLE`]; another is answered NFS4ERR_UNION_NOTSUPP.
        pub what: u32,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// True if there is no match before the end of the file.
        pub eof: bool,
        /// Offset of the match, in bytes.
        pub offset: u64,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
