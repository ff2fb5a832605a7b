//! DESTROY_SESSION (RFC 8881, section 18.37): ends a session.

use super::{SessionId, Status};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    #[derive(Copy)]
    pub struct Args {
        /// The session.
        pub sessionid: SessionId,
    }
}

/// No results.
pub type ResOk = ();

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
