//! TEST_STATEID (RFC 8881, section 18.48): asks which stateids are still valid.

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
        /// A status for each of them, in order.
        pub status_codes: Vec<Status>,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Status>;
