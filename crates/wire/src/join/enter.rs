//! ENTER: the roles that a machine requests, and the data that it needs to join.

use bytes::Bytes;

use super::{Nonce, Proof, Refusal, Word};
use crate::{xdr_struct, xdr_union};

xdr_struct! {
    /// The arguments.
    pub struct Args {
        /// [`super::client_proof`] of both nonces with the token's key.
        pub proof: Proof,
        /// Random ticket of the machine, the same in a retry.
        pub ticket: Nonce,
        /// Node name, for people.
        pub name: Word,
        /// Consensus address as metaserver, "address:port"; empty: no metaserver.
        pub consensus: Word,
        /// Data address as data server, "address:port"; empty: no data server.
        pub data: Word,
    }

    /// The results.
    pub struct ResOk {
        /// Sealed secret of the cluster: see [`super::seal`].
        pub sealed: [u8; 32],
        /// Tag that authenticates `sealed`.
        pub tag: [u8; 32],
        /// Addresses of the metaservers, "address:port" each, also for the registration of data servers.
        pub metaservers: Vec<Bytes>,
    }
}

xdr_union! {
    /// Results, or the error status.
    pub enum Res {
        /// The machine has joined.
        0 => Entered(ResOk),
        /// Refusal, with a cause that an operator must fix first.
        1 => Refused(Refusal),
    }
}
