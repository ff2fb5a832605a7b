//! COMMIT (RFC 8881, section 18.3): makes unstable writes durable.

use super::{Status, Verifier};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the file.
    #[derive(Copy)]
    pub struct Args {
        /// First byte.
        pub offset: u64,
        /// Bytes; 0 is to the end of the file.
        pub count: u32,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// Write verifier: equal to that of a WRITE if its data were kept.
        pub writeverf: Verifier,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
