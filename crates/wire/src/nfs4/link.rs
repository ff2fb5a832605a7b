//! LINK (RFC 8881, section 18.9): creates a hard link to a file.

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
        /// Change of the directory.
        pub cinfo: ChangeInfo,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
