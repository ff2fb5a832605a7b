//! MNT (RFC 1813, section 5.2.1): the handle of an exported directory.

use super::{DirPath, Status};
use crate::nfs3::FileHandle;
use crate::xdr_struct;

/// The flavor of a call by nobody in particular (RFC 5531, section 8.1).
pub const AUTH_NONE: u32 = 0;
/// The flavor of a call by a user and groups (RFC 5531, section 8.1).
pub const AUTH_SYS: u32 = 1;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The directory.
        pub path: DirPath,
    }

    /// The results.
    pub struct ResOk {
        /// Its handle, for NFS.
        pub handle: FileHandle,
        /// The flavors of credential that it may be used with, the best first.
        pub auth_flavors: Vec<u32>,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Status>;
