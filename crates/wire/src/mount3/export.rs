//! EXPORT (RFC 1813, section 5.2.5): what is exported, and to whom.

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
        /// Who may mount it; empty means everybody.
        pub groups: List<Name>,
    }

    /// The results.
    #[derive(Default)]
    pub struct Res {
        /// All directories.
        pub exports: List<Export>,
    }
}
