//! PROVE: the second half of the handshake, see [`super::hello`]. From its success on, the connection is one
//! of ours.

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
/// How it ended.
pub type Res = Result<ResOk, Status>;
