//! WRITE (RFC 8881, section 18.32): writes to a file.

use super::{StableHow, Stateid, Status, Verifier};
use crate::xdr::Payload;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the file.
    pub struct Args {
        /// By what right.
        pub stateid: Stateid,
        /// First byte.
        pub offset: u64,
        /// How durable it must be before the reply.
        pub stable: StableHow,
        /// The data.
        pub data: Payload,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// Bytes written.
        pub count: u32,
        /// How durable they are: at least as was asked.
        pub committed: StableHow,
        /// Changes when unstable data may have been lost.
        pub writeverf: Verifier,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Status>;
