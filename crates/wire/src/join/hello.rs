//! HELLO: which cluster is meant, and what would hinder both from working together.

use super::{Nonce, Proof, Refusal, Word};
use crate::{xdr_struct, xdr_union};

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// [`super::PROTOCOL`] of the machine.
        pub protocol: u32,
        /// Its heorot's version, for people.
        pub version: Word,
        /// The cluster that the token is of.
        pub cluster: [u8; 16],
        /// Which of the cluster's tokens it is.
        pub id: u64,
        /// Until when it holds: seconds since 1970.
        pub expires: u64,
        /// The machine's clock: milliseconds since 1970.
        pub clock_ms: u64,
        /// The machine's nonce.
        pub nonce: Nonce,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// The metaserver's nonce.
        pub nonce: Nonce,
        /// [`super::server_proof`] of both nonces with the token's key.
        pub proof: Proof,
    }
}

xdr_union! {
    /// How it ended.
    pub enum Res {
        /// The metaserver waits for ENTER.
        0 => Welcome(ResOk),
        /// Something has to be mended first.
        1 => Refused(Refusal),
    }
}
