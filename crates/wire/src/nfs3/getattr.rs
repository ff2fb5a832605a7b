//! GETATTR (RFC 1813, section 3.3.1): attributes of an object.

use super::{Failure, Fattr, FileHandle};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The object.
        pub object: FileHandle,
    }

    /// The results.
    pub struct ResOk {
        /// Attributes of the object.
        pub obj_attributes: Fattr,
    }

    /// A failure returns no attributes.
    #[derive(Default)]
    pub struct ResFail {}
}

/// Results, or the error status.
pub type Res = Result<ResOk, Failure<ResFail>>;
