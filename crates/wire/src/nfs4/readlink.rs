//! READLINK (RFC 8881, section 18.24): reads a symbolic link.

use bytes::Bytes;

use super::Status;
use crate::xdr_struct;

xdr_struct! {
    /// The results.
    pub struct ResOk {
        /// The text of the link.
        pub link: Bytes,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
