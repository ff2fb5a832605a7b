//! RMDIR (RFC 1813, section 3.3.13): removes an empty directory.

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

    /// What a failure returns.
    #[derive(Default)]
    pub struct ResFail {
        /// Attributes of the directory, before and after.
        pub dir_wcc: WccData,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Failure<ResFail>>;
