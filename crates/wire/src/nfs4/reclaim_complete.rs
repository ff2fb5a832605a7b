//! RECLAIM_COMPLETE (RFC 8881, section 18.51): the client has reclaimed all that it had.

use super::Status;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: for one file system an object of it.
    #[derive(Copy)]
    pub struct Args {
        /// Whether one file system is meant, not all.
        pub one_fs: bool,
    }
}

/// No results.
pub type ResOk = ();

/// How it ended.
pub type Res = Result<ResOk, Status>;
