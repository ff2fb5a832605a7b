//! SETXATTR (RFC 8276, section 8.4.2): sets an extended attribute.

use bytes::Bytes;

use super::{ChangeInfo, Status};
use crate::{xdr_enum, xdr_struct};

xdr_enum! {
    /// setxattr_option4.
    pub enum SetOption {
        /// The attribute may exist or not.
        Either = 0,
        /// It must not exist.
        Create = 1,
        /// It must exist.
        Replace = 2,
    }
}

xdr_struct! {
    /// The arguments. Current handle: the object.
    pub struct Args {
        /// Condition on the existing attribute.
        pub option: SetOption,
        /// Attribute's name, without the prefix `user.`.
        pub name: Bytes,
        /// Value of the attribute.
        pub value: Bytes,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// The object's change.
        pub cinfo: ChangeInfo,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
