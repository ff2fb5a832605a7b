//! WRITE: writes to an object.

use bytes::Bytes;

use super::{Status, WriteVerifier};
use crate::xdr::Payload;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// Object, which MAKE has created.
        pub handle: Bytes,
        /// Offset in the object, in bytes.
        pub offset: u64,
        /// True if the data must be durable before the reply.
        pub stable: bool,
        /// CRC-32C of each piece of the data that lies in one block of 64 KiB of the object, in order; none from a metaserver.
        pub sums: Vec<u32>,
        /// Data, a slice of the record.
        pub data: Payload,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// Bytes written.
        pub count: u32,
        /// Write verifier: changes when unstable writes may be lost.
        pub verifier: WriteVerifier,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
