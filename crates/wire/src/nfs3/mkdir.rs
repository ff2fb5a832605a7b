//! MKDIR (RFC 1813, section 3.3.9): creates a directory.

use super::{DirOpArgs, Failure, PostOpAttr, PostOpFh, SetAttr, WccData};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// Directory and name (`where` in the RFC).
        pub at: DirOpArgs,
        /// Attributes of the new directory.
        pub attributes: SetAttr,
    }

    /// The results.
    pub struct ResOk {
        /// The new object.
        pub obj: PostOpFh,
        /// Attributes of the object.
        pub obj_attributes: PostOpAttr,
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
