//! UMNT (RFC 1813, section 5.2.3): ends the caller's mount of a directory. Advisory.

use super::DirPath;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// The directory, as it was mounted.
        pub path: DirPath,
    }

    /// No results.
    #[derive(Copy, Default)]
    pub struct Res {}
}
