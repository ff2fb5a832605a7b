//! ENTER: what the machine wants to be, and all that it has to know for that.

use bytes::Bytes;

use super::{Nonce, Proof, Refusal, Word};
use crate::{xdr_struct, xdr_union};

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// [`super::client_proof`] of both nonces with the token's key.
        pub proof: Proof,
        /// Random bits of the machine's, the same when it asks again.
        pub ticket: Nonce,
        /// The node's name, for people.
        pub name: Word,
        /// Where the other metaservers would reach it, "address:port"; empty: it will be none.
        pub consensus: Word,
        /// Where clients would reach its data, "address:port"; empty: it will be no data server.
        pub data: Word,
    }

    /// The results.
    pub struct ResOk {
        /// The cluster's secret: see [`super::seal`].
        pub sealed: [u8; 32],
        /// Shows that the secret arrived as it was sent.
        pub tag: [u8; 32],
        /// Where metaservers serve, and data servers register: "address:port" each.
        pub metaservers: Vec<Bytes>,
    }
}

xdr_union! {
    /// How it ended.
    pub enum Res {
        /// It can begin.
        0 => Entered(ResOk),
        /// Something has to be mended first.
        1 => Refused(Refusal),
    }
}
