//! UMNTALL (RFC 1813, section 5.2.4): ends all mounts of the caller. Advisory.

use crate::xdr_struct;

xdr_struct! {
    /// No arguments.
    #[derive(Copy, Default)]
    pub struct Args {}

    /// No results.
    #[derive(Copy, Default)]
    pub struct Res {}
}
