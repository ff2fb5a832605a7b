//! A machine that wants to become one of a cluster's, and a metaserver that takes it in.
//!
//! ```text
//! machine                                   metaserver
//!   HELLO cluster, its clock, nonce  ─────▶
//!                                    ◀─────  nonce, proof      machine: is it the cluster that my token is of?
//!   ENTER proof, what it wants to be ─────▶                    metaserver: does it hold a token of ours, which is still good?
//!                                    ◀─────  the cluster's secret, sealed; where the metaservers are
//! ```
//!
//! The cluster notes that the token was used, and nothing else: a machine that has the secret becomes a
//! member or a data server by acting as one. A machine whose ENTER was not answered asks again, with the same
//! ticket.

pub mod enter;
pub mod hello;
pub mod procedure;
pub mod seal;
#[cfg(test)]
mod tests;
pub mod token;

use bytes::Bytes;

pub use procedure::{Call, Procedure, Reply};
pub use token::{OWN_ID, Token, TokenError};

pub use crate::handshake::{Nonce, Proof, client_proof, null, proof_matches, server_proof};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};
use crate::xdr_struct;

/// The RPC program number: "HEJ" in ASCII, in the range that sites define for themselves (RFC 5531, section
/// 8.4.2).
pub const PROGRAM: u32 = 0x2048_454A;
/// The version of the program that these modules speak.
pub const VERSION: u32 = 2;
/// What the servers of one cluster say to each other, all of it: raised with every change that an older one
/// would not understand.
pub const PROTOCOL: u32 = 3;
/// A name, a version or an address is shorter. Anybody may send them, and they go into a log.
pub const WORD_BYTES_MAX: usize = 255;

/// What a machine says of itself: at most [`WORD_BYTES_MAX`] bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Word(pub Bytes);

impl Encode for Word {
    fn encode(&self, e: &mut Encoder) {
        e.opaque(&self.0);
    }
}

impl Decode for Word {
    fn decode(d: &mut Decoder) -> Result<Self, DecodeError> {
        d.opaque(WORD_BYTES_MAX).map(Self)
    }
}

xdr_struct! {
    /// Why a machine is not taken in.
    pub struct Refusal {
        /// One line, for the person who sits at the machine.
        pub line: Bytes,
    }
}
