//! RENAME (RFC 8881, section 18.26): renames an entry, or moves it to another directory.

use bytes::Bytes;

use super::{ChangeInfo, Status};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Saved handle: the source directory. Current handle: the target directory.
    pub struct Args {
        /// The name in the source directory.
        pub oldname: Bytes,
        /// The name in the target directory.
        pub newname: Bytes,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// Change of the source directory.
        pub source_cinfo: ChangeInfo,
        /// Change of the target directory.
        pub target_cinfo: ChangeInfo,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
