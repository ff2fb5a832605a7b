//! STAT: how long objects are, and when they were last written.

use bytes::Bytes;

use super::Status;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The objects.
        pub handles: Vec<Bytes>,
        /// Whether what was written to them is made durable first.
        pub sync: bool,
    }

    /// One object. One that is not there has no bytes, and was never written.
    #[derive(Copy, Default)]
    pub struct ObjectStat {
        /// Its length in bytes.
        pub len: u64,
        /// When it was last written, in nanoseconds since 1970 by the data server's clock. A write after this
        /// answer makes it another one, however soon it comes.
        pub modified_ns: u64,
    }

    /// The results.
    pub struct ResOk {
        /// The objects, in the order of the handles.
        pub objects: Vec<ObjectStat>,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Status>;
