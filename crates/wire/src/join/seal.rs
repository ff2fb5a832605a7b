//! Encryption of the cluster's secret for the holder of a token.
//!
//! ```text
//! key    = the token's
//! pad    = BLAKE3(key, "heorot join pad v1\0\0\0\0" │ client nonce 32 │ server nonce 32)
//! sealed = secret xor pad
//! tag    = BLAKE3(key, "heorot join tag v1\0\0\0\0" │ client nonce 32 │ server nonce 32 │ sealed 32)
//! ```
//!
//! Nonces are new for each connection, so each pad is used once. An eavesdropper without the token learns
//! nothing; one with the token could request the secret anyway.

use super::{Nonce, proof_matches};

const PAD_PREFIX: &[u8; 22] = b"heorot join pad v1\0\0\0\0";
const TAG_PREFIX: &[u8; 22] = b"heorot join tag v1\0\0\0\0";

/// Seals the secret: returns `(sealed, tag)`.
#[must_use]
pub fn seal(key: &[u8; 32], client: &Nonce, server: &Nonce, secret: &[u8; 32]) -> ([u8; 32], [u8; 32]) {
    let sealed = xor(secret, &keyed(key, PAD_PREFIX, &[client, server]));
    (sealed, keyed(key, TAG_PREFIX, &[client, server, &sealed]))
}

/// Opens the sealed secret; none if the tag does not match.
#[must_use]
pub fn open(
    key: &[u8; 32],
    client: &Nonce,
    server: &Nonce,
    sealed: &[u8; 32],
    tag: &[u8; 32],
) -> Option<[u8; 32]> {
    proof_matches(&keyed(key, TAG_PREFIX, &[client, server, sealed]), tag)
        .then(|| xor(sealed, &keyed(key, PAD_PREFIX, &[client, server])))
}

fn keyed(key: &[u8; 32], prefix: &[u8; 22], parts: &[&[u8; 32]]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(prefix);
    parts.iter().for_each(|part| {
        hasher.update(*part);
    });
    *hasher.finalize().as_bytes()
}

fn xor(a: &[u8; 32], b: &[u8; 32]) -> [u8; 32] {
    std::array::from_fn(|i| a[i] ^ b[i])
}
