//! LINK (RFC 8881, section 18.9): gives a file one more name.

use bytes::Bytes;

use super::{ChangeInfo, Status};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Saved handle: the file. Current handle: the directory.
    pub struct Args {
        /// The new name.
        pub newname: Bytes,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// The directory's change.
        pub cinfo: ChangeInfo,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Status>;
