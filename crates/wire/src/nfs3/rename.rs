//! RENAME (RFC 1813, section 3.3.14): renames an object.

use super::{DirOpArgs, Failure, WccData};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The old name.
        pub from: DirOpArgs,
        /// The new name.
        pub to: DirOpArgs,
    }

    /// The results.
    pub struct ResOk {
        /// Attributes of the old directory, before and after.
        pub fromdir_wcc: WccData,
        /// Attributes of the new directory, before and after.
        pub todir_wcc: WccData,
    }

    /// Results of a failure.
    #[derive(Default)]
    pub struct ResFail {
        /// Attributes of the old directory, before and after.
        pub fromdir_wcc: WccData,
        /// Attributes of the new directory, before and after.
        pub todir_wcc: WccData,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Failure<ResFail>>;
