//! CREATE (RFC 1813, section 3.3.8): creates a regular file.

use super::{CreateVerf, DirOpArgs, Failure, PostOpAttr, PostOpFh, SetAttr, WccData};
use crate::{xdr_struct, xdr_union};

xdr_union! {
    /// createhow3: what to do when the name is taken.
    pub enum CreateHow {
        /// Take what is there.
        0 => Unchecked(SetAttr),
        /// Fail with [`super::Status::Exist`].
        1 => Guarded(SetAttr),
        /// Fail, except when it was created with the same verifier.
        2 => Exclusive(CreateVerf),
    }
}

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// Directory and name (`where` in the RFC).
        pub at: DirOpArgs,
        /// How to create it.
        pub how: CreateHow,
    }

    /// The results.
    pub struct ResOk {
        /// The new object.
        pub obj: PostOpFh,
        /// Its attributes.
        pub obj_attributes: PostOpAttr,
        /// Attributes of the directory, before and after.
        pub dir_wcc: WccData,
    }

    /// What a failure returns.
    #[derive(Default)]
    pub struct ResFail {
        /// Attributes of the directory, before and after.
        pub dir_wcc: WccData,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Failure<ResFail>>;
