//! LOOKUP (RFC 1813, section 3.3.3): finds a name in a directory.

use super::{DirOpArgs, Failure, FileHandle, PostOpAttr};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// Directory and name.
        pub what: DirOpArgs,
    }

    /// The results.
    pub struct ResOk {
        /// Object of the name.
        pub object: FileHandle,
        /// Attributes of the object.
        pub obj_attributes: PostOpAttr,
        /// Attributes of the directory.
        pub dir_attributes: PostOpAttr,
    }

    /// Results of a failure.
    #[derive(Default)]
    pub struct ResFail {
        /// Attributes of the directory.
        pub dir_attributes: PostOpAttr,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Failure<ResFail>>;
