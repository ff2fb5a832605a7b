//! EXPORT (RFC 1813, section 5.2.5): list of exports, and of the clients that may mount each.

use super::{DirPath, Name};
use crate::nfs3::List;
use crate::xdr_struct;

xdr_struct! {
    /// No arguments.
    #[derive(Copy, Default)]
    pub struct Args {}

    /// exportnode: one directory.
    pub struct Export {
        /// The directory.
        pub path: DirPath,
        /// Groups of clients that may mount it; empty: all clients.
        pub groups: List<Name>,
    }

    /// The results.
    #[derive(Default)]
    pub struct Res {
        /// All directories.
        pub exports: List<Export>,
    }
}
