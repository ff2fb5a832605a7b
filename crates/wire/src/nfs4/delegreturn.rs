//! DELEGRETURN (RFC 8881, section 18.6): returns a delegation.

use super::{Stateid, Status};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the file.
    #[derive(Copy)]
    pub struct Args {
        /// The delegation.
        pub stateid: Stateid,
    }
}

/// No results.
pub type ResOk = ();

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
