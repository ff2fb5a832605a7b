//! FREE_STATEID (RFC 8881, section 18.38): removes a stateid that has no locks, or was revoked.

use super::{Stateid, Status};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    #[derive(Copy)]
    pub struct Args {
        /// The stateid.
        pub stateid: Stateid,
    }
}

/// No results.
pub type ResOk = ();

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
