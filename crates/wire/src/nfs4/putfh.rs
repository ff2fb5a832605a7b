//! PUTFH (RFC 8881, section 18.19): goes to a handle.

use super::{FileHandle, Status};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The handle.
        pub object: FileHandle,
    }
}

/// No results.
pub type ResOk = ();

/// How it ended.
pub type Res = Result<ResOk, Status>;
