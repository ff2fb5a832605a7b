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
        /// Hard links at most.
        pub linkmax: u32,
        /// Bytes in a name at most.
        pub name_max: u32,
        /// Whether a longer name is refused, not cut.
        pub no_trunc: bool,
        /// Whether only a privileged user may give files away.
        pub chown_restricted: bool,
        /// Whether names differ by more than case.
        pub case_insensitive: bool,
        /// Whether the case of names is kept.
        pub case_preserving: bool,
    }

    /// What a failure returns.
    #[derive(Default)]
    pub struct ResFail {
        /// Attributes of the object.
        pub obj_attributes: PostOpAttr,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Failure<ResFail>>;
