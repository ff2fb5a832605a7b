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
        /// If it is not that of the writes, they must be sent again.
        pub verifier: WriteVerifier,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Status>;
