//! GETXATTR (RFC 8276, section 8.4.1): reads an extended attribute.

use bytes::Bytes;

use super::Status;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the object.
    pub struct Args {
        /// Its name, without the prefix `user.`.
        pub name: Bytes,
    }

    /// The results.
    pub struct ResOk {
        /// Its value.
        pub value: Bytes,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Status>;
