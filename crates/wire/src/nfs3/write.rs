//! WRITE (RFC 1813, section 3.3.7): writes to a file.

use super::{Failure, FileHandle, StableHow, WccData, WriteVerf};
use crate::xdr::Payload;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The file.
        pub file: FileHandle,
        /// First byte.
        pub offset: u64,
        /// Bytes to write. The decoder does not compare it with `data`: a server answers a difference with
        /// [`super::Status::Inval`].
        pub count: u32,
        /// Requested durability.
        pub stable: StableHow,
        /// Data, a slice of the record.
        pub data: Payload,
    }

    /// The results.
    pub struct ResOk {
        /// Attributes of the file, before and after.
        pub file_wcc: WccData,
        /// Bytes written.
        pub count: u32,
        /// Durability of the data: at least as requested.
        pub committed: StableHow,
        /// Write verifier: changes when unstable writes may be lost.
        pub verf: WriteVerf,
    }

    /// Results of a failure.
    #[derive(Default)]
    pub struct ResFail {
        /// Attributes of the file, before and after.
        pub file_wcc: WccData,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Failure<ResFail>>;
