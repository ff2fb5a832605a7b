//! NULL (RFC 1813, section 3.3.0): does nothing.

use crate::xdr_struct;

xdr_struct! {
    /// No arguments.
    #[derive(Copy, Default)]
    pub struct Args {}

    /// No results.
    #[derive(Copy, Default)]
    pub struct Res {}
}
