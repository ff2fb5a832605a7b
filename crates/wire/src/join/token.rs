//! A join token: what lets a machine into a cluster, for a while.
//!
//! ```text
//! heorot1-  hexadecimal of: │ expires u40 │ cluster 16 │ key 16 │ check 3 │
//! key     = BLAKE3(the cluster's key for tokens, "heorot join key v1\0\0\0\0" │ expires u64), the first 16 bytes
//! check   = BLAKE3(all before it), the first 3 bytes: finds what was mistyped
//! ```
//!
//! Nobody keeps a list of tokens: each metaserver can tell a token's key from when it expires, which the key is bound to.
//! Who holds a token can ask for the cluster's secret until it expires, and keeps what he was given.

use std::fmt;
use std::str::FromStr;

const PREFIX: &str = "heorot1-";
const KEY_PREFIX: &[u8; 22] = b"heorot join key v1\0\0\0\0";
const PROOF_CONTEXT: &str = "heorot 2026 join proofs";
const BYTES: usize = 5 + 16 + 16 + 3;
/// Of 40 bits.
const EXPIRES_MAX: u64 = (1 << 40) - 1;

/// A token.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// Seconds since 1970.
    pub expires: u64,
    /// The cluster's id.
    pub cluster: [u8; 16],
    key: [u8; 16],
}

/// Why a text is no token. One line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenError {
    /// It does not look like one.
    NoToken,
    /// Something was mistyped, or is missing.
    Mistyped,
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoToken => {
                "this is no join token: one begins with \"heorot1-\", and `heorot token` on a node prints it"
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
        write!(f, "Token(until {})", self.expires)
    }
}

impl Token {
    /// The token of a cluster that holds until `expires`. `tokens`: the cluster's key for tokens.
    #[must_use]
    pub fn new(cluster: [u8; 16], tokens: &[u8; 32], expires: u64) -> Self {
        let expires = expires.min(EXPIRES_MAX);
        let mut hasher = blake3::Hasher::new_keyed(tokens);
        hasher.update(KEY_PREFIX).update(&expires.to_be_bytes());
        let mut key = [0; 16];
        key.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Self { expires, cluster, key }
    }

    /// What both ends prove to hold, and the secret is sealed with.
    #[must_use]
    pub fn proof_key(&self) -> [u8; 32] {
        blake3::derive_key(PROOF_CONTEXT, &self.key)
    }

    fn bytes(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..5].copy_from_slice(&self.expires.to_be_bytes()[3..]);
        bytes[5..21].copy_from_slice(&self.cluster);
        bytes[21..37].copy_from_slice(&self.key);
        let check = blake3::hash(&bytes[..37]);
        bytes[37..].copy_from_slice(&check.as_bytes()[..3]);
        bytes
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        self.bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let digits = text.trim().strip_prefix(PREFIX).ok_or(TokenError::NoToken)?;
        if digits.len() != 2 * BYTES || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(TokenError::Mistyped);
        }
        let mut bytes = [0; BYTES];
        for (index, byte) in bytes.iter_mut().enumerate() {
            let pair = digits.get(2 * index..2 * index + 2).ok_or(TokenError::Mistyped)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| TokenError::Mistyped)?;
        }
        let mut token = Self { expires: 0, cluster: [0; 16], key: [0; 16] };
        token.expires = bytes[..5].iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
        token.cluster.copy_from_slice(&bytes[5..21]);
        token.key.copy_from_slice(&bytes[21..37]);
        if token.bytes() == bytes { Ok(token) } else { Err(TokenError::Mistyped) }
    }
}
