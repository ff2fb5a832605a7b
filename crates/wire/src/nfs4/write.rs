//! WRITE (RFC 8881, section 18.32): writes to a file.

use super::{StableHow, Stateid, Status, Verifier};
use crate::xdr::Payload;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the file.
    pub struct Args {
        /// Stateid of the open, lock or delegation, or a special stateid.
        pub stateid: Stateid,
        /// First byte.
        pub offset: u64,
        /// Requested durability.
        pub stable: StableHow,
        /// The data.
        pub data: Payload,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// Bytes written.
        pub count: u32,
        /// Durability of the data: at least as requested.
        pub committed: StableHow,
        /// Write verifier: changes when unstable data may have been lost.
        pub writeverf: Verifier,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
