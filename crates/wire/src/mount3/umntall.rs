//! UMNTALL (RFC 1813, section 5.2.4): the caller no longer mounts anything. Advice only.

use crate::xdr_struct;

xdr_struct! {
    /// No arguments.
    #[derive(Copy, Default)]
    pub struct Args {}

    /// No results.
    #[derive(Copy, Default)]
    pub struct Res {}
}
