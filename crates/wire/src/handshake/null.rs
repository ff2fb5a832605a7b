//! NULL: does nothing. Besides the handshake, the only procedure that needs no proof.

use crate::xdr_struct;

xdr_struct! {
    /// No arguments.
    #[derive(Copy, Default)]
    pub struct Args {}

    /// No results.
    #[derive(Copy, Default)]
    pub struct Res {}
}
