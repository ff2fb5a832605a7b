//! CREATE (RFC 1813, section 3.3.8): creates a regular file.

use super::{CreateVerf, DirOpArgs, Failure, PostOpAttr, PostOpFh, SetAttr, WccData};
use crate::{xdr_struct, xdr_union};

xdr_union! {
    /// createhow3: treatment of an existing file.
    pub enum CreateHow {
        /// UNCHECKED: use the existing file.
        0 => Unchecked(SetAttr),
        /// GUARDED: fail with [`super::Status::Exist`].
        1 => Guarded(SetAttr),
        /// EXCLUSIVE: fail, unless the file was created with the same verifier.
        2 => Exclusive(CreateVerf),
    }
}

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// Directory and name (`where` in the RFC).
        pub at: DirOpArgs,
        /// Treatment of an existing file.
        pub how: CreateHow,
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
