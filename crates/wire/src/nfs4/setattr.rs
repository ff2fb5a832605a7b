//! SETATTR (RFC 8881, section 18.30): sets attributes.

use super::result::failure;
use super::{Bitmap, Fattr, OpResult, Stateid, Status};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the object.
    pub struct Args {
        /// Stateid of an open, lock or delegation; needed to set the size.
        pub stateid: Stateid,
        /// The new values.
        pub obj_attributes: Box<Fattr>,
    }

    /// Result: a failure also has the attributes that were set.
    #[derive(Copy)]
    pub struct Res {
        /// The status.
        pub status: Status,
        /// Attributes that were set.
        pub attrsset: Bitmap,
    }
}

impl OpResult for Res {
    fn status(&self) -> Status {
        self.status
    }

    fn failed(status: Status) -> Self {
        Self { status: failure(status), attrsset: Bitmap::EMPTY }
    }

    fn encode_result(&self, e: &mut Encoder) {
        self.encode(e);
    }

    fn decode_result(d: &mut Decoder) -> Result<Self, DecodeError> {
        Self::decode(d)
    }
}
