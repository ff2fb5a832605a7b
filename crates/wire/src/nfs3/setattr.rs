//! SETATTR (RFC 1813, section 3.3.2): changes attributes of an object.

use super::{Failure, FileHandle, SetAttr, Time, WccData};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The object.
        pub object: FileHandle,
        /// New attributes.
        pub new_attributes: SetAttr,
        /// Guard: the expected ctime; if it differs, [`super::Status::NotSync`].
        pub guard: Option<Time>,
    }

    /// The results.
    pub struct ResOk {
        /// Attributes of the object, before and after.
        pub obj_wcc: WccData,
    }

    /// Results of a failure.
    #[derive(Default)]
    pub struct ResFail {
        /// Attributes of the object, before and after.
        pub obj_wcc: WccData,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Failure<ResFail>>;
