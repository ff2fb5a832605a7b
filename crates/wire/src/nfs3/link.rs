//! LINK (RFC 1813, section 3.3.15): creates a hard link to a file.

use super::{DirOpArgs, Failure, FileHandle, PostOpAttr, WccData};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The file.
        pub file: FileHandle,
        /// The new name.
        pub link: DirOpArgs,
    }

    /// The results.
    pub struct ResOk {
        /// Attributes of the file.
        pub file_attributes: PostOpAttr,
        /// Attributes of the directory, before and after.
        pub linkdir_wcc: WccData,
    }

    /// Results of a failure.
    #[derive(Default)]
    pub struct ResFail {
        /// Attributes of the file.
        pub file_attributes: PostOpAttr,
        /// Attributes of the directory, before and after.
        pub linkdir_wcc: WccData,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Failure<ResFail>>;
