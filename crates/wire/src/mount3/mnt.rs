//! MNT (RFC 1813, section 5.2.1): the handle of an exported directory.

use super::{DirPath, Status};
use crate::nfs3::FileHandle;
use crate::xdr_struct;

/// Flavor of a call without a user (RFC 5531, section 8.1).
pub const AUTH_NONE: u32 = 0;
/// Flavor of a call by a user and groups (RFC 5531, section 8.1).
pub const AUTH_SYS: u32 = 1;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The directory.
        pub path: DirPath,
    }

    /// The results.
    pub struct ResOk {
        /// Handle of the directory, for NFS.
        pub handle: FileHandle,
        /// Flavors of credential that are allowed with the handle, the preferred one first.
        pub auth_flavors: Vec<u32>,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
