//! STATUS: how full and how well the targets are.

use bytes::Bytes;

use super::Status;
use crate::{xdr_enum, xdr_struct};

xdr_enum! {
    /// Condition of a storage target, as its data server sees it. The numbers are in the order of gravity.
    pub enum TargetCondition {
        /// Takes reads and writes.
        Ok = 0,
        /// Has no room for new data; what it has is read and removed as before.
        Full = 1,
        /// Its file system is mounted read-only.
        ReadOnly = 2,
        /// A sync or the file system failed: nothing is served before the data server is started again.
        Failed = 3,
        /// The directory is not the target that was there at the start (its disk was unmounted, or its marker
        /// is gone): nothing is served before the data server is started again.
        Missing = 4,
    }
}

xdr_struct! {
    /// One storage target.
    pub struct TargetSpace {
        /// Which file system of which machine (a hash): targets on one file system share its room, which
        /// counts once.
        pub file_system: u64,
        /// Its id.
        pub target: u64,
        /// Its directory, for people.
        pub path: Bytes,
        /// Bytes it can hold.
        pub total: u64,
        /// Bytes free.
        pub free: u64,
        /// Objects on it.
        pub objects: u64,
        /// Whether it can be read and written.
        pub condition: TargetCondition,
        /// Whether objects can share their data (reflink).
        pub reflinks: bool,
        /// Whose objects it has:
        /// [`register::ResOk::name_space`](crate::cluster::register::ResOk::name_space); 0: nobody's yet.
        pub name_space: u64,
        /// The incarnation of metaservers that it obeys:
        /// [`register::ResOk::incarnation`](crate::cluster::register::ResOk::incarnation); 0: none yet.
        pub incarnation: u64,
        /// Bytes of removed objects that are still kept; they are counted in `free`.
        pub trash: u64,
        /// Bytes of its file system that are left alone; they are not counted in `free`.
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

/// How it ended.
pub type Res = Result<ResOk, Status>;
