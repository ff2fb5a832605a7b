//! HELLO: the first half of the handshake of the private programs. Each end proves that it holds the
//! cluster's secret, without sending the secret.
//!
//! ```text
//! server proof = BLAKE3(key, "heorot hello server v1" │ client nonce 32 │ server nonce 32)
//! client proof = BLAKE3(key, "heorot hello client v1" │ client nonce 32 │ server nonce 32)
//! ```
//!
//! Both nonces are in both proofs, so a recorded handshake cannot be replayed. The prefixes differ, so a
//! server's proof cannot be reflected as a client's; and no proof can be the tag of a file handle, which
//! begins with 1 to 3.
//!
//! The handshake does not protect the bytes that follow. An attacker on the network path, able to alter
//! packets between two servers, can relay the handshake and then call as the client. To prevent that, run the
//! programs over TLS.

use super::Status;
use crate::xdr_struct;

pub use super::prove::Args as ProveArgs;

/// Procedure number of HELLO, the same in all private programs.
pub const HELLO: u32 = 1;
/// Procedure number of PROVE, the same in all private programs.
pub const PROVE: u32 = 2;

const SERVER_PREFIX: &[u8; 22] = b"heorot hello server v1";
const CLIENT_PREFIX: &[u8; 22] = b"heorot hello client v1";

/// Random bytes, new for each connection.
pub type Nonce = [u8; 32];
/// Proof: only a holder of the cluster's secret can compute it from the nonces.
pub type Proof = [u8; 32];

xdr_struct! {
    /// The arguments.
    #[derive(Copy)]
    pub struct Args {
        /// Cluster id of the caller.
        pub cluster: [u8; 16],
        /// The caller's nonce.
        pub nonce: Nonce,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// The server's nonce.
        pub nonce: Nonce,
        /// [`server_proof`] of both nonces.
        pub proof: Proof,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;

/// Computes the server's proof, sent in the results of HELLO.
#[must_use]
pub fn server_proof(key: &[u8; 32], client_nonce: &Nonce, server_nonce: &Nonce) -> Proof {
    proof(key, SERVER_PREFIX, client_nonce, server_nonce)
}

/// Computes the caller's proof, sent in PROVE.
#[must_use]
pub fn client_proof(key: &[u8; 32], client_nonce: &Nonce, server_nonce: &Nonce) -> Proof {
    proof(key, CLIENT_PREFIX, client_nonce, server_nonce)
}

fn proof(key: &[u8; 32], prefix: &[u8; 22], client_nonce: &Nonce, server_nonce: &Nonce) -> Proof {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(prefix).update(client_nonce).update(server_nonce);
    *hasher.finalize().as_bytes()
}

/// Compares a received proof with the expected one, in constant time, so that an attacker cannot guess a
/// proof byte by byte.
#[must_use]
pub fn proof_matches(expected: &Proof, received: &Proof) -> bool {
    blake3::Hash::from_bytes(*expected) == blake3::Hash::from_bytes(*received)
}
