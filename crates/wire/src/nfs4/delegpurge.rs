//! DELEGPURGE (RFC 8881, section 18.5): gives up delegations that wait to be reclaimed.

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

/// How it ended.
pub type Res = Result<ResOk, Status>;
