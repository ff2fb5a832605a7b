//! REMOVE (RFC 1813, section 3.3.12): removes a name that is not a directory.

use super::{DirOpArgs, Failure, WccData};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// Directory and name.
        pub object: DirOpArgs,
    }

    /// The results.
    pub struct ResOk {
        /// Attributes of the directory, before and after.
        pub dir_wcc: WccData,
    }

    /// Results of a failure.
    #[derive(Default)]
    pub struct ResFail {
        /// Attributes of the directory, before and after.
        pub dir_wcc: WccData,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Failure<ResFail>>;
