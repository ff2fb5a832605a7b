//! HELLO: the first half of the handshake of our own programs. Each end shows that it holds the cluster's
//! secret, and neither sends it.
//!
//! ```text
//! server proof = BLAKE3(key, "heorot hello server v1" │ client nonce 32 │ server nonce 32)
//! client proof = BLAKE3(key, "heorot hello client v1" │ client nonce 32 │ server nonce 32)
//! ```
//!
//! Both nonces are in both proofs, so a recorded handshake proves nothing later. The prefixes differ, so a
//! server's proof sent back is not a client's; and neither can be the tag of a file handle, which begins with
//! 1 or 2.
//!
//! What it does not do: protect the bytes that follow. Who can alter packets between two servers can pass the
//! handshake on and then speak in the caller's name; against that, run the programs over TLS.

use super::Status;
use crate::xdr_struct;

pub use super::prove::Args as ProveArgs;

/// HELLO's number, the same in both programs.
pub const HELLO: u32 = 1;
/// PROVE's number, the same in both programs.
pub const PROVE: u32 = 2;

const SERVER_PREFIX: &[u8; 22] = b"heorot hello server v1";
const CLIENT_PREFIX: &[u8; 22] = b"heorot hello client v1";

/// Random bytes, new for each connection.
pub type Nonce = [u8; 32];
/// What only a holder of the cluster's secret can compute from the nonces.
pub type Proof = [u8; 32];

xdr_struct! {
    /// The arguments.
    #[derive(Copy)]
    pub struct Args {
        /// The cluster that the caller belongs to.
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

/// How it ended.
pub type Res = Result<ResOk, Status>;

/// The server's proof, sent with HELLO's results.
#[must_use]
pub fn server_proof(key: &[u8; 32], client_nonce: &Nonce, server_nonce: &Nonce) -> Proof {
    proof(key, SERVER_PREFIX, client_nonce, server_nonce)
}

/// The caller's proof, sent with PROVE.
#[must_use]
pub fn client_proof(key: &[u8; 32], client_nonce: &Nonce, server_nonce: &Nonce) -> Proof {
    proof(key, CLIENT_PREFIX, client_nonce, server_nonce)
}

fn proof(key: &[u8; 32], prefix: &[u8; 22], client_nonce: &Nonce, server_nonce: &Nonce) -> Proof {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(prefix).update(client_nonce).update(server_nonce);
    *hasher.finalize().as_bytes()
}

/// Whether a received proof is the expected one. In constant time, so that nobody learns a proof byte by
/// byte.
#[must_use]
pub fn proof_matches(expected: &Proof, received: &Proof) -> bool {
    blake3::Hash::from_bytes(*expected) == blake3::Hash::from_bytes(*received)
}
