//! SETATTR (RFC 1813, section 3.3.2): changes attributes of an object.

use super::{Failure, FileHandle, SetAttr, Time, WccData};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The object.
        pub object: FileHandle,
        /// What to change.
        pub new_attributes: SetAttr,
        /// Only if the ctime is still this; else [`super::Status::NotSync`].
        pub guard: Option<Time>,
    }

    /// The results.
    pub struct ResOk {
        /// Attributes of the object, before and after.
        pub obj_wcc: WccData,
    }

    /// What a failure returns.
    #[derive(Default)]
    pub struct ResFail {
        /// Attributes of the object, before and after.
        pub obj_wcc: WccData,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Failure<ResFail>>;
