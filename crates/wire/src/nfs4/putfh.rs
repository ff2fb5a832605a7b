//! PUTFH (RFC 8881, section 18.19): sets the current filehandle.

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

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
