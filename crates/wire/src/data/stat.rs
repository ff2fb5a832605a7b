//! STAT: lengths, modification times and space of objects.

use bytes::Bytes;

use super::Status;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The objects.
        pub handles: Vec<Bytes>,
        /// True if writes to the objects must be made durable first.
        pub sync: bool,
    }

    /// Length, modification time and space of an object.
    #[derive(Copy, Default)]
    pub struct ObjectStat {
        /// Length in bytes.
        pub len: u64,
        /// Time of the last write, in nanoseconds since 1970 by the data server's clock. Any write after this
        /// reply changes the time, however soon the write is.
        pub modified_ns: u64,
        /// Bytes that the file system has given it up to its end, without its sums; a part of them may change when data come to the disk.
        pub space_used: u64,
    }

    /// The results.
    pub struct ResOk {
        /// Results in the order of the handles; none: the object is lost, and its length is not known.
        pub objects: Vec<Option<ObjectStat>>,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
