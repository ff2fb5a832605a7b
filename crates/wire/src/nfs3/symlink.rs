//! SYMLINK (RFC 1813, section 3.3.10): creates a symbolic link.

use bytes::Bytes;

use super::{DirOpArgs, Failure, PostOpAttr, PostOpFh, SetAttr, WccData};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// Directory and name (`where` in the RFC).
        pub at: DirOpArgs,
        /// Attributes of the link.
        pub attributes: SetAttr,
        /// Its text.
        pub data: Bytes,
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
