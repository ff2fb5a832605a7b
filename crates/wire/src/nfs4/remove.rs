//! REMOVE (RFC 8881, section 18.25): removes an entry of a directory.

use bytes::Bytes;

use super::{ChangeInfo, Status};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the directory.
    pub struct Args {
        /// The entry.
        pub target: Bytes,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// The directory's change.
        pub cinfo: ChangeInfo,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
