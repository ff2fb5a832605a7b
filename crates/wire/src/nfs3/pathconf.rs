//! PATHCONF (RFC 1813, section 3.3.20): POSIX pathconf values.

use super::{Failure, FileHandle, PostOpAttr};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The object.
        pub object: FileHandle,
    }

    /// The results.
    pub struct ResOk {
        /// Attributes of the object.
        pub obj_attributes: PostOpAttr,
        /// Maximal number of hard links.
        pub linkmax: u32,
        /// Maximal length of a name, in bytes.
        pub name_max: u32,
        /// True if a longer name is refused, not truncated.
        pub no_trunc: bool,
        /// True if only a privileged user may change the owner of a file.
        pub chown_restricted: bool,
        /// True if name comparison ignores case.
        pub case_insensitive: bool,
        /// True if the case of names is kept.
        pub case_preserving: bool,
    }

    /// Results of a failure.
    #[derive(Default)]
    pub struct ResFail {
        /// Attributes of the object.
        pub obj_attributes: PostOpAttr,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Failure<ResFail>>;
