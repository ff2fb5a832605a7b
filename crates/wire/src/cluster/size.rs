//! SIZE: how long an object is in its file as the metaservers know it. A data server asks when a read meets
//! the end of an object: behind it may be a hole, or the end of the file.

use bytes::Bytes;

use super::Status;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The object's handle: [`crate::handle::ObjectHandle`].
        pub handle: Bytes,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// Length in bytes that the object has in a file of its present size without holes.
        pub len: u64,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Status>;
