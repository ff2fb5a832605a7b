//! DELEGPURGE (RFC 8881, section 18.5): drops delegations that await a reclaim.

use super::{ClientId, Status};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    #[derive(Copy)]
    pub struct Args {
        /// The client.
        pub clientid: ClientId,
    }
}

/// No results.
pub type ResOk = ();

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
