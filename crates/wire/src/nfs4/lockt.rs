//! LOCKT (RFC 8881, section 18.11): tests whether a byte-range lock would be granted.

use super::lock::Error;
use super::{LockType, StateOwner};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the file.
    pub struct Args {
        /// Shared or exclusive.
        pub locktype: LockType,
        /// First byte.
        pub offset: u64,
        /// Bytes; `u64::MAX` is to the endof the file.
        pub length: u64,
        /// Lock-owner of the tested lock.
        pub owner: StateOwner,
    }
}

/// No results.
pub type ResOk = ();

/// Results, or the error status.
pub type Res = Result<ResOk, Error>;
