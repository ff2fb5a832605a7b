//! GETATTR (RFC 8881, section 18.7): reads attributes.

use super::{AttrReply, Bitmap, Status};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the object.
    #[derive(Copy)]
    pub struct Args {
        /// Requested attributes; the reply leaves out those that are not supported.
        pub attr_request: Bitmap,
    }
}

/// The results.
pub type ResOk = AttrReply;

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
