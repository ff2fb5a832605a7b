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
        /// Bytes to write. Not compared with `data` here: a server answers a difference with
        /// [`super::Status::Inval`].
        pub count: u32,
        /// How durable to make them.
        pub stable: StableHow,
        /// The data, a slice of the record.
        pub data: Payload,
    }

    /// The results.
    pub struct ResOk {
        /// Attributes of the file, before and after.
        pub file_wcc: WccData,
        /// Bytes written.
        pub count: u32,
        /// How durable they are: at least as asked.
        pub committed: StableHow,
        /// Changes when unstable writes may be lost.
        pub verf: WriteVerf,
    }

    /// What a failure returns.
    #[derive(Default)]
    pub struct ResFail {
        /// Attributes of the file, before and after.
        pub file_wcc: WccData,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Failure<ResFail>>;
