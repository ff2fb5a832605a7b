//! CLOSE (RFC 8881, section 18.2): ends an open.

use super::{Stateid, Status};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the file.
    #[derive(Copy)]
    pub struct Args {
        /// Ignored since minor version 1.
        pub seqid: u32,
        /// The open.
        pub open_stateid: Stateid,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// [`Stateid::INVALID`].
        pub open_stateid: Stateid,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
