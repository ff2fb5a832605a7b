//! REMOVEXATTR (RFC 8276, section 8.4.4): removes an extended attribute.

use bytes::Bytes;

use super::{ChangeInfo, Status};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the object.
    pub struct Args {
        /// Its name, without the prefix `user.`.
        pub name: Bytes,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// The object's change.
        pub cinfo: ChangeInfo,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
