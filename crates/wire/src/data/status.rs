//! STATUS: how full and how well the targets are.

use bytes::Bytes;

use super::Status;
use crate::xdr_struct;

xdr_struct! {
    /// One storage target.
    pub struct TargetSpace {
        /// Which file system of which machine (a hash): targets on one file system share its room, which counts once.
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
        /// Whether a sync failed: it stays failed until the server starts again.
        pub failed: bool,
        /// Whether objects can share their data (reflink).
        pub reflinks: bool,
        /// Whose objects it has: [`register::ResOk::name_space`](crate::cluster::register::ResOk::name_space); 0: nobody's yet.
        pub name_space: u64,
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
