//! Join: the protocol between a machine that joins a cluster and a metaserver.
//!
//! ```text
//! machine                                   metaserver
//!   HELLO cluster, its clock, nonce  ─────▶
//!                                    ◀─────  nonce, proof      machine: is this the cluster of my token?
//!   ENTER proof, requested roles     ─────▶                    metaserver: is the proof of a valid token?
//!                                    ◀─────  the cluster's secret, sealed; addresses of the metaservers
//! ```
//!
//! The cluster only records that the token was used: a machine that has the secret becomes a member or a data
//! server by acting as one. A machine whose ENTER got no reply retries with the same ticket.

pub mod enter;
pub mod hello;
pub mod seal;
#[cfg(test)]
mod tests;
pub mod token;

use bytes::Bytes;

pub use token::{OWN_ID, Token, TokenError};

pub use crate::handshake::{Nonce, Proof, client_proof, proof_matches, server_proof};
pub use crate::rpc::null;
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};
use crate::xdr_struct;

/// RPC program number: "HEJ" in ASCII, in the user-defined range (RFC 5531, section 8.4.2).
pub const PROGRAM: u32 = 0x2048_454A;
/// Version of the program.
pub const VERSION: u32 = 2;
/// Version of all protocols between the servers of one cluster: raised with every change that an older server
/// would not understand.
pub const PROTOCOL: u32 = 3;
/// Maximal length of a name, a version or an address: any client can send them, and they go into a log.
pub const WORD_BYTES_MAX: usize = 255;

/// Text from an unauthenticated machine, at most [`WORD_BYTES_MAX`] bytes.
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

crate::rpc::program! {
    /// Does nothing: a ping.
    0 Null null "NULL";
    /// Checks that machine and cluster match.
    1 Hello hello "HELLO";
    /// Joins the cluster.
    2 Enter enter "ENTER";
}

xdr_struct! {
    /// Refusal of a join.
    pub struct Refusal {
        /// Cause in one line, for the operator of the machine.
        pub line: Bytes,
    }
}
