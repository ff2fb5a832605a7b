//! Join token: lets one machine join a cluster, once, until the token expires or is revoked.
//!
//! ```text
//! heorot2-  hexadecimal of: │ expires u40 │ id u64 │ cluster 16 │ key 16 │ check 3 │
//! key     = BLAKE3(the cluster's key for tokens, "heorot join key v2\0\0\0\0" │ id u64 │ expires u64),
//!           the first 16 bytes
//! check   = BLAKE3(all before it), the first 3 bytes: detects typing errors
//! ```
//!
//! The cluster stores the id and expiry of each token, and the machine that used it; each metaserver derives
//! the token's key from these. A machine that has joined holds the cluster's secret, and keeps it.

use std::fmt;
use std::str::FromStr;

const PREFIX: &str = "heorot2-";
const KEY_PREFIX: &[u8; 22] = b"heorot join key v2\0\0\0\0";
const PROOF_CONTEXT: &str = "heorot 2026 join proofs";
const BYTES: usize = 5 + 8 + 16 + 16 + 3;
/// Id of a token that a member makes for itself: it proves to another member that both hold the secret. No
/// machine can join with it.
pub const OWN_ID: u64 = 0;
/// Largest value of 40 bits.
const EXPIRES_MAX: u64 = (1 << 40) - 1;

/// Join token.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// Token id, unique in the cluster.
    pub id: u64,
    /// Expiry: seconds since 1970.
    pub expires: u64,
    /// The cluster's id.
    pub cluster: [u8; 16],
    key: [u8; 16],
}

/// Error of parsing a token. One line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenError {
    /// The text does not have the form of a token.
    NoToken,
    /// The check fails: a typing error, or a part is missing.
    Mistyped,
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoToken => {
                "this is no join token: one begins with \"heorot2-\", and `heorot token` on a node prints it"
            }
            Self::Mistyped => {
                "there is a mistake in this join token, or a part is missing: copy it again, all of it"
            }
        })
    }
}

impl std::error::Error for TokenError {}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({:016x} until {})", self.id, self.expires)
    }
}

impl Token {
    /// Token of a cluster with this id, valid until `expires`. `tokens`: the cluster's key for tokens.
    #[must_use]
    pub fn new(cluster: [u8; 16], tokens: &[u8; 32], id: u64, expires: u64) -> Self {
        let expires = expires.min(EXPIRES_MAX);
        let mut hasher = blake3::Hasher::new_keyed(tokens);
        hasher.update(KEY_PREFIX).update(&id.to_be_bytes()).update(&expires.to_be_bytes());
        let mut key = [0; 16];
        key.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Self { id, expires, cluster, key }
    }

    /// Key for the proofs of both ends and for the seal of the secret.
    #[must_use]
    pub fn proof_key(&self) -> [u8; 32] {
        blake3::derive_key(PROOF_CONTEXT, &self.key)
    }

    fn bytes(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..5].copy_from_slice(&self.expires.to_be_bytes()[3..]);
        bytes[5..13].copy_from_slice(&self.id.to_be_bytes());
        bytes[13..29].copy_from_slice(&self.cluster);
        bytes[29..45].copy_from_slice(&self.key);
        let check = blake3::hash(&bytes[..45]);
        bytes[45..].copy_from_slice(&check.as_bytes()[..3]);
        bytes
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        f.write_str(&hex::encode(self.bytes()))
    }
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let digits = text.trim().strip_prefix(PREFIX).ok_or(TokenError::NoToken)?;
        let mut bytes = [0; BYTES];
        hex::decode_to_slice(digits, &mut bytes).map_err(|_| TokenError::Mistyped)?;
        let number = |bytes: &[u8]| bytes.iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
        let (expires, id) = (number(&bytes[..5]), number(&bytes[5..13]));
        let mut token = Self { id, expires, cluster: [0; 16], key: [0; 16] };
        token.cluster.copy_from_slice(&bytes[13..29]);
        token.key.copy_from_slice(&bytes[29..45]);
        if token.bytes() == bytes { Ok(token) } else { Err(TokenError::Mistyped) }
    }
}
