//! BLOCK: the verified bytes of a block, for the head of a chain, which mends the same block of another
//! member. Unlike READ, it waits for no change: the head has the lock. The handle has the version of the chain.

use bytes::Bytes;

use super::Status;
use crate::xdr::Payload;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The object.
        pub handle: Bytes,
        /// Number of the block: blocks have 64 KiB.
        pub block: u64,
    }

    /// The results.
    pub struct ResOk {
        /// CRC-32C of the bytes.
        pub sum: u32,
        /// The bytes of the block; fewer at the end of the object.
        pub payload: Payload,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
