//! ALLOCATE: reserves room for a range of an object, durably. What was not written there before reads as
//! zeros.

use bytes::Bytes;

use super::{Status, WriteVerifier};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The object; created when it is not there yet.
        pub handle: Bytes,
        /// First byte of the object.
        pub offset: u64,
        /// Bytes.
        pub len: u64,
        /// Only say how much room it takes, and whether there is as much: nothing is reserved.
        pub ask: bool,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// Bytes that the disk did not have for the range yet: at most this many.
        pub needed: u64,
        /// Bytes that it had free before.
        pub free: u64,
        /// Which file system of which machine: see
        /// [`TargetSpace::file_system`](super::TargetSpace::file_system).
        pub file_system: u64,
        /// Changes when a data server may have lost unstable writes.
        pub verifier: WriteVerifier,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Status>;
