//! IO_ADVISE (RFC 7862, section 15.5): hints about the future use of a range.

use super::{Bitmap, Stateid, Status};
use crate::xdr_struct;

/// Hint: nothing special.
pub const NORMAL: u32 = 0;
/// Hint: from low offsets to high.
pub const SEQUENTIAL: u32 = 1;
/// Hint: from high offsets to low.
pub const SEQUENTIAL_BACKWARDS: u32 = 2;
/// Hint: in no order.
pub const RANDOM: u32 = 3;
/// Hint: soon.
pub const WILLNEED: u32 = 4;
/// Hint: perhaps soon.
pub const WILLNEED_OPPORTUNISTIC: u32 = 5;
/// Hint: not soon.
pub const DONTNEED: u32 = 6;
/// Hint: once.
pub const NOREUSE: u32 = 7;
/// Hint: it will be read.
pub const READ: u32 = 8;
/// Hint: it will be written.
pub const WRITE: u32 = 9;
/// Hint: soon, but from elsewhere.
pub const INIT_PROXIMITY: u32 = 10;

xdr_struct! {
    /// The arguments. Current handle: the file.
    #[derive(Copy)]
    pub struct Args {
        /// Stateid of the open, lock or delegation, or a special stateid.
        pub stateid: Stateid,
        /// First byte.
        pub offset: u64,
        /// Bytes; 0 is to the end of the file.
        pub count: u64,
        /// [`SEQUENTIAL`] and so on.
        pub hints: Bitmap,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// Hints that the server will use.
        pub hints: Bitmap,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
