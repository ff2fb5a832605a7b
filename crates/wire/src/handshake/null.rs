//! NULL: does nothing. The one procedure that needs no proof, apart from the handshake itself.

use crate::xdr_struct;

xdr_struct! {
    /// No arguments.
    #[derive(Copy, Default)]
    pub struct Args {}

    /// No results.
    #[derive(Copy, Default)]
    pub struct Res {}
}
