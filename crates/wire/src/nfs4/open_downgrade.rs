//! OPEN_DOWNGRADE (RFC 8881, section 18.18): reduces the access and denial of an open.

use super::{Stateid, Status};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the file.
    #[derive(Copy)]
    pub struct Args {
        /// The open.
        pub open_stateid: Stateid,
        /// Ignored since minor version 1.
        pub seqid: u32,
        /// Remaining access; see [`super::open::SHARE_ACCESS_READ`].
        pub share_access: u32,
        /// Remaining denial.
        pub share_deny: u32,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// The open.
        pub open_stateid: Stateid,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
