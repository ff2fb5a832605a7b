//! READLINK (RFC 1813, section 3.3.5): the text of a symbolic link.

use bytes::Bytes;

use super::{Failure, FileHandle, PostOpAttr};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The link.
        pub symlink: FileHandle,
    }

    /// The results.
    pub struct ResOk {
        /// Attributes of the link.
        pub symlink_attributes: PostOpAttr,
        /// Its text.
        pub data: Bytes,
    }

    /// Results of a failure.
    #[derive(Default)]
    pub struct ResFail {
        /// Attributes of the link.
        pub symlink_attributes: PostOpAttr,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Failure<ResFail>>;
