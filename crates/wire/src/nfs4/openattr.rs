//! OPENATTR (RFC 8881, section 18.17): sets the current filehandle to the directory of named attributes.

use super::Status;
use crate::xdr_struct;

xdr_struct! {
    /// The arguments. Current handle: the object.
    #[derive(Copy)]
    pub struct Args {
        /// Whether to create the directory.
        pub createdir: bool,
    }
}

/// No results.
pub type ResOk = ();

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
