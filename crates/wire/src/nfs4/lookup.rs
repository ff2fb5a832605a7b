//! LOOKUP (RFC 8881, section 18.13): sets the current filehandle to an entry of a directory.

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

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
