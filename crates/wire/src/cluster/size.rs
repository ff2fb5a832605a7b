//! SIZE: length of an object according to the metaservers. A data server asks when a read reaches the end of
//! an object, which may be followed by a hole or by the end of the file.

use bytes::Bytes;

use super::Status;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// Sealed handle of the object: [`crate::handle::ObjectHandle`].
        pub handle: Bytes,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// Length in bytes of the object in a file of the present size without holes.
        pub len: u64,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
