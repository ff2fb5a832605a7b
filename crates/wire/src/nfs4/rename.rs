//! RENAME (RFC 8881, section 18.26): moves an entry, to another directory perhaps.

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
        /// The source directory's change.
        pub source_cinfo: ChangeInfo,
        /// The target directory's change.
        pub target_cinfo: ChangeInfo,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Status>;
