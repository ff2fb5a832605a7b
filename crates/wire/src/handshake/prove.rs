//! PROVE: the second half of the handshake, see [`super::hello`]. After success the connection is
//! authenticated.

use super::{Proof, Status};
use crate::xdr_struct;

xdr_struct! {
    /// The arguments.
    #[derive(Copy)]
    pub struct Args {
        /// [`super::client_proof`] of both nonces.
        pub proof: Proof,
    }
}

/// No results.
pub type ResOk = ();
/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
