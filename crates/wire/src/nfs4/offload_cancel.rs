//! OFFLOAD_CANCEL (RFC 7862, section 15.8): cancels an asynchronous copy.

use super::{Stateid, Status};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the target.
    #[derive(Copy)]
    pub struct Args {
        /// The copy.
        pub stateid: Stateid,
    }
}

/// No results.
pub type ResOk = ();

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
