//! COMMIT (RFC 1813, section 3.3.21): makes unstable writes durable.

use super::{Failure, FileHandle, WccData, WriteVerf};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The file.
        pub file: FileHandle,
        /// First byte.
        pub offset: u64,
        /// Bytes; 0 means to the end of the file.
        pub count: u32,
    }

    /// The results.
    pub struct ResOk {
        /// Attributes of the file, before and after.
        pub file_wcc: WccData,
        /// Write verifier. If it differs from that of the writes, the client must send them again.
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
