//! LISTXATTRS (RFC 8276, section 8.4.3): lists the names of extended attributes.

use bytes::Bytes;

use super::Status;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the object.
    #[derive(Copy)]
    pub struct Args {
        /// The cookie of the page before; 0 at first.
        pub cookie: u64,
        /// Bytes of [`ResOk`] at most.
        pub maxcount: u32,
    }

    /// The results.
    pub struct ResOk {
        /// For the next page.
        pub cookie: u64,
        /// Names, without the prefix `user.`.
        pub names: Vec<Bytes>,
        /// Whether the list ends here.
        pub eof: bool,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Status>;
