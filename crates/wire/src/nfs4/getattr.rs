//! GETATTR (RFC 8881, section 18.7): reads attributes.

use super::{AttrReply, Bitmap, Status};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the object.
    #[derive(Copy)]
    pub struct Args {
        /// Attributes wanted; those that are not supported are left out of the reply.
        pub attr_request: Bitmap,
    }
}

/// The results.
pub type ResOk = AttrReply;

/// How it ended.
pub type Res = Result<ResOk, Status>;
