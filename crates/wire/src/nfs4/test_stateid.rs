//! TEST_STATEID (RFC 8881, section 18.48): tests which stateids are valid.

use super::{Stateid, Status};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The stateids.
        pub stateids: Vec<Stateid>,
    }

    /// The results.
    pub struct ResOk {
        /// Status of each stateid, in order.
        pub status_codes: Vec<Status>,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
