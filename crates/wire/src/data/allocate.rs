//! ALLOCATE: reserves space for a range of an object, durably. Parts that were not written before read as
//! zeros.

use bytes::Bytes;

use super::{Status, WriteVerifier};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// Object, which MAKE has created.
        pub handle: Bytes,
        /// Offset in the object, in bytes.
        pub offset: u64,
        /// Length in bytes.
        pub len: u64,
        /// Query only: return the space needed and free, and reserve nothing.
        pub ask: bool,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// Upper bound of the bytes that the disk still had to reserve for the range.
        pub needed: u64,
        /// Free bytes before the call.
        pub free: u64,
        /// File system of the target: see [`TargetSpace::file_system`](super::TargetSpace::file_system).
        pub file_system: u64,
        /// Write verifier: changes when a data server may have lost unstable writes.
        pub verifier: WriteVerifier,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
