//! LINK (RFC 1813, section 3.3.15): gives a file one more name.

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

    /// What a failure returns.
    #[derive(Default)]
    pub struct ResFail {
        /// Attributes of the file.
        pub file_attributes: PostOpAttr,
        /// Attributes of the directory, before and after.
        pub linkdir_wcc: WccData,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Failure<ResFail>>;
