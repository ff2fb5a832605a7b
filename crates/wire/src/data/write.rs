//! WRITE: writes to an object.

use bytes::Bytes;

use super::{Status, WriteVerifier};
use crate::xdr::Payload;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The object; created when it is not there yet.
        pub handle: Bytes,
        /// First byte of the object.
        pub offset: u64,
        /// Whether to answer only when the data are durable.
        pub stable: bool,
        /// The data, a slice of the record.
        pub data: Payload,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// Bytes written.
        pub count: u32,
        /// Changes when unstable writes may be lost.
        pub verifier: WriteVerifier,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Status>;
