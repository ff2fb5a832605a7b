//! DUMP (RFC 1813, section 5.2.2): who mounts what. Only as good as the clients' UMNT.

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
        /// All that the server remembers.
        pub mounts: List<Mount>,
    }
}
