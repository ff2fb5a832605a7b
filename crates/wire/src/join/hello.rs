//! HELLO: checks that machine and cluster match, before anything is written.

use super::{Nonce, Proof, Refusal, Word};
use crate::{xdr_struct, xdr_union};

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// [`super::PROTOCOL`] of the machine.
        pub protocol: u32,
        /// Version of its heorot, for people.
        pub version: Word,
        /// Cluster id in the token.
        pub cluster: [u8; 16],
        /// Id of the token.
        pub id: u64,
        /// Expiry of the token: seconds since 1970.
        pub expires: u64,
        /// Clock of the machine: milliseconds since 1970.
        pub clock_ms: u64,
        /// Nonce of the machine.
        pub nonce: Nonce,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// Nonce of the metaserver.
        pub nonce: Nonce,
        /// [`super::server_proof`] of both nonces with the token's key.
        pub proof: Proof,
    }
}

xdr_union! {
    /// Results, or the error status.
    pub enum Res {
        /// Success: the metaserver expects ENTER.
        0 => Welcome(ResOk),
        /// Refusal, with a cause that an operator must fix first.
        1 => Refused(Refusal),
    }
}
