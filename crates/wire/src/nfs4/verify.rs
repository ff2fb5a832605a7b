//! VERIFY (RFC 8881, section 18.31): fails unless all attributes are equal.

use super::{Fattr, Status};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the object.
    pub struct Args {
        /// Values to compare with.
        pub obj_attributes: Box<Fattr>,
    }
}

/// No results.
pub type ResOk = ();

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
