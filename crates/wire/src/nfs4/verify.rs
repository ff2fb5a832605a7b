//! VERIFY (RFC 8881, section 18.31): goes on only if all attributes are equal.

use super::{Fattr, Status};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the object.
    pub struct Args {
        /// The values to compare with.
        pub obj_attributes: Box<Fattr>,
    }
}

/// No results.
pub type ResOk = ();

/// How it ended.
pub type Res = Result<ResOk, Status>;
