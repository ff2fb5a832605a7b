//! LOOKUP (RFC 8881, section 18.13): goes to an entry of a directory.

use bytes::Bytes;

use super::Status;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the directory; afterwards the object.
    pub struct Args {
        /// The entry.
        pub objname: Bytes,
    }
}

/// No results.
pub type ResOk = ();

/// How it ended.
pub type Res = Result<ResOk, Status>;
