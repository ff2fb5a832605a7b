//! OPENATTR (RFC 8881, section 18.17): goes to the directory of named attributes.

use super::Status;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the object.
    #[derive(Copy)]
    pub struct Args {
        /// Whether to make the directory.
        pub createdir: bool,
    }
}

/// No results.
pub type ResOk = ();

/// How it ended.
pub type Res = Result<ResOk, Status>;
