//! RECLAIM_COMPLETE (RFC 8881, section 18.51): the client has reclaimed all its state.

use super::Status;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: with `one_fs`, an object of the file system.
    #[derive(Copy)]
    pub struct Args {
        /// True if the operation is for one file system, not for all.
        pub one_fs: bool,
    }
}

/// No results.
pub type ResOk = ();

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
