//! PUNCH: makes a hole in an object, durably. The object keeps its length.

use bytes::Bytes;

use super::Status;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// Object. The call succeeds if it does not exist.
        pub handle: Bytes,
        /// Offset in the object, in bytes.
        pub offset: u64,
        /// Length in bytes.
        pub len: u64,
    }
}

/// No results.
pub type ResOk = ();
/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
