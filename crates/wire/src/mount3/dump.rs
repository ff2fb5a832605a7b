//! DUMP (RFC 1813, section 5.2.2): list of mounts. Only as accurate as the clients' UMNT calls.

use super::{DirPath, Name};
use crate::nfs3::List;
use crate::xdr_struct;

xdr_struct! {
    /// No arguments.
    #[derive(Copy, Default)]
    pub struct Args {}

    /// mountbody: one mount.
    pub struct Mount {
        /// The client.
        pub host: Name,
        /// The directory.
        pub path: DirPath,
    }

    /// The results.
    #[derive(Default)]
    pub struct Res {
        /// All mounts that the server remembers.
        pub mounts: List<Mount>,
    }
}
