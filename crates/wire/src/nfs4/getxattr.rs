//! GETXATTR (RFC 8276, section 8.4.1): reads an extended attribute.

use bytes::Bytes;

use super::Status;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the object.
    pub struct Args {
        /// Attribute's name, without the prefix `user.`.
        pub name: Bytes,
    }

    /// The results.
    pub struct ResOk {
        /// Value of the attribute.
        pub value: Bytes,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
