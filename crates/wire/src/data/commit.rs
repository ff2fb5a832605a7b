//! COMMIT: makes unstable writes to an object durable.

use bytes::Bytes;

use super::{Status, WriteVerifier};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The object.
        pub handle: Bytes,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// Write verifier. If it differs from that of the writes, send them again.
        pub verifier: WriteVerifier,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
