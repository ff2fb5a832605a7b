//! LISTXATTRS (RFC 8276, section 8.4.3): lists the names of extended attributes.

use bytes::Bytes;

use super::Status;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the object.
    #[derive(Copy)]
    pub struct Args {
        /// Cookie of the previous page; 0 at first.
        pub cookie: u64,
        /// Bytes of [`ResOk`] at most.
        pub maxcount: u32,
    }

    /// The results.
    pub struct ResOk {
        /// Cookie for the next page.
        pub cookie: u64,
        /// Names, without the prefix `user.`.
        pub names: Vec<Bytes>,
        /// True if the list ends here.
        pub eof: bool,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
