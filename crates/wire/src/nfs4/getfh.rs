//! GETFH (RFC 8881, section 18.8): returns the current handle.

use super::{FileHandle, Status};
use crate::xdr_struct;

xdr_struct! {
    /// The results.
    pub struct ResOk {
        /// The current handle.
        pub object: FileHandle,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
