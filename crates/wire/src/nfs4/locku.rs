//! LOCKU (RFC 8881, section 18.12): releases a byte-range lock.

use super::{LockType, Stateid, Status};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the file.
    #[derive(Copy)]
    pub struct Args {
        /// Ignored by the server.
        pub locktype: LockType,
        /// Ignored since minor version 1.
        pub seqid: u32,
        /// Stateid of the owner's locks on this file.
        pub lock_stateid: Stateid,
        /// First byte.
        pub offset: u64,
        /// Bytes; `u64::MAX` is to the endof the file.
        pub length: u64,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// Stateid of the owner's locks on this file.
        pub lock_stateid: Stateid,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
