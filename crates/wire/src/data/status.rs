//! STATUS: space and condition of the targets.

use bytes::Bytes;

use super::Status;
use crate::{xdr_enum, xdr_struct};

xdr_enum! {
    /// Condition of a storage target, as its data server finds it. The numbers are in the order of severity.
    pub enum TargetCondition {
        /// Reads and writes work.
        Ok = 0,
        /// Blocks of objects are known to be damaged: reads of them fail, and all else works.
        Damaged = 1,
        /// No space for new data; reads and removals work.
        Full = 2,
        /// The file system is mounted read-only.
        ReadOnly = 3,
        /// A sync or the file system failed: the target serves nothing until the data server restarts.
        Failed = 4,
        /// The directory is not the target that was there at the start (its disk was unmounted, or its marker
        /// is gone): the target serves nothing until the data server restarts.
        Missing = 5,
    }
}

xdr_struct! {
    /// Status of one storage target.
    pub struct TargetSpace {
        /// File system (a hash, unique over machines): targets on one file system share its space, which
        /// counts once.
        pub file_system: u64,
        /// Target id.
        pub target: u64,
        /// Directory, for people.
        pub path: Bytes,
        /// Capacity in bytes, without what is reserved for root.
        pub total: u64,
        /// Free bytes.
        pub free: u64,
        /// Number of objects.
        pub objects: u64,
        /// Condition for reads and writes.
        pub condition: TargetCondition,
        /// True if objects can share their data (reflink).
        pub reflinks: bool,
        /// Name space of its objects:
        /// [`register::ResOk::name_space`](crate::cluster::register::ResOk::name_space); 0: none yet.
        pub name_space: u64,
        /// Incarnation of the group that it obeys:
        /// [`register::ResOk::incarnation`](crate::cluster::register::ResOk::incarnation); 0: none yet.
        pub incarnation: u64,
        /// Bytes of removed objects in the trash; `free` includes them.
        pub trash: u64,
        /// Reserve of its file system in bytes; `free` does not include it.
        pub reserve: u64,
    }

    /// No arguments.
    #[derive(Copy, Default)]
    pub struct Args {}

    /// The results.
    pub struct ResOk {
        /// All targets of the server.
        pub targets: Vec<TargetSpace>,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
