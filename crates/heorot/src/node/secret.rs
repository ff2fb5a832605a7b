//! Cluster secret: 32 random bytes, in a file as 64 hexadecimal digits. Each key of the cluster is derived
//! from it for one purpose, so that bytes that leave a server reveal nothing about the other keys.
//!
//! ```text
//! secret ─┬─ "heorot 2026 cluster id"  ─▶ first 16 bytes: the cluster's id, public
//!         ├─ "heorot 2026 file handles" ─▶ seals file handles
//!         ├─ "heorot 2026 servers"      ─▶ proofs between servers
//!         └─ "heorot 2026 join tokens"  ─▶ keys of join tokens, one for each id and expiry
//! ```

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use host::{Entropy, SystemFiles, private};
use nfs::PeerKey;
use wire::handle::HandleKey;
use wire::join::Token;

const CLUSTER_CONTEXT: &str = "heorot 2026 cluster id";
const HANDLE_CONTEXT: &str = "heorot 2026 file handles";
const TOKEN_CONTEXT: &str = "heorot 2026 join tokens";
const PEER_CONTEXT: &str = "heorot 2026 servers";

/// Error of reading or making the secret. One line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretError {
    #[error("{0}: cannot read the cluster's secret: {1}; check the path and its permissions")]
    Read(PathBuf, io::Error),
    #[error("{0}: cannot write a new secret: {1}; name a file that heorot can make")]
    Write(PathBuf, io::Error),
    #[error("{0}: is not a secret of 64 hexadecimal digits; bring it back from a copy on another server")]
    Malformed(PathBuf),
    #[error(
        "{0}: others can read the cluster's secret, and so every file, and that cannot be mended: {1}; run chmod 600 {0}"
    )]
    Open(PathBuf, io::Error),
    #[error("{0}: there is no secret, and {1}; bring it back from a copy on another server")]
    Lost(PathBuf, String),
}

/// Cluster secret.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret([u8; 32]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    /// Reads the secret; none if there is no file. Closes the file to other users.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, SecretError> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                return Err(SecretError::Malformed(path.into()));
            }
            Err(e) => return Err(SecretError::Read(path.into(), e)),
        };
        close(path).map_err(|e| SecretError::Open(path.into(), e))?;
        let mut bytes = [0; 32];
        hex::decode_to_slice(text.trim(), &mut bytes).map_err(|_| SecretError::Malformed(path.into()))?;
        Ok(Some(Self(bytes)))
    }

    /// Reads the secret, or makes a new one. `lost`: the reason why a missing secret must not be replaced.
    pub(crate) fn read_or_create(
        path: &Path,
        lost: Option<String>,
        entropy: &dyn Entropy,
    ) -> Result<(Self, bool), SecretError> {
        match (Self::read(path)?, lost) {
            (Some(secret), _) => Ok((secret, false)),
            (None, Some(why)) => Err(SecretError::Lost(path.into(), why)),
            (None, None) => Ok((Self::create(path, entropy)?, true)),
        }
    }

    /// Makes a new secret, in place of one that was never used.
    pub(crate) fn create(path: &Path, entropy: &dyn Entropy) -> Result<Self, SecretError> {
        Self(entropy.bytes()).keep(path)
    }

    /// Writes the secret of another server here.
    pub(crate) fn receive(bytes: [u8; 32], path: &Path) -> Result<Self, SecretError> {
        Self(bytes).keep(path)
    }

    fn keep(self, path: &Path) -> Result<Self, SecretError> {
        self.write(path).map_err(|e| SecretError::Write(path.into(), e))?;
        Ok(self)
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        host::replace(&SystemFiles, path, format!("{}\n", hex::encode(self.0)).as_bytes())
    }

    /// Cluster id.
    pub(crate) fn cluster(&self) -> [u8; 16] {
        let mut cluster = [0; 16];
        cluster.copy_from_slice(&blake3::derive_key(CLUSTER_CONTEXT, &self.0)[..16]);
        cluster
    }

    /// Key that seals file handles.
    pub(crate) fn handle_key(&self) -> HandleKey {
        HandleKey::new(blake3::derive_key(HANDLE_CONTEXT, &self.0))
    }

    /// Key for the derivation of join tokens' keys.
    pub(crate) fn token_key(&self) -> [u8; 32] {
        blake3::derive_key(TOKEN_CONTEXT, &self.0)
    }

    /// Token with this id, valid until `expires` (seconds since 1970) if the cluster has the id in its list.
    pub(crate) fn token(&self, id: u64, expires: u64) -> Token {
        Token::new(self.cluster(), &self.token_key(), id, expires)
    }

    /// The secret itself, for a machine that has proven its token.
    pub(crate) fn bytes(&self) -> [u8; 32] {
        self.0
    }

    /// Key of the proofs between servers.
    pub(crate) fn peer_key(&self) -> PeerKey {
        PeerKey { cluster: self.cluster(), secret: blake3::derive_key(PEER_CONTEXT, &self.0) }
    }
}

/// Closes a file of this user to others. A file of another user stays: its group may include this server.
fn close(path: &Path) -> io::Result<()> {
    let metadata = std::fs::metadata(path)?;
    let ours = metadata.uid() == rustix::process::geteuid().as_raw();
    if metadata.mode() & if ours { 0o077 } else { 0o007 } == 0 { Ok(()) } else { private::close_file(path) }
}

#[cfg(test)]
mod tests {
    use host::SeededEntropy;

    use super::*;

    #[test]
    fn a_secret_is_made_once_and_only_its_owner_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        let entropy = SeededEntropy::new(1);
        assert_eq!(Secret::read(&path).unwrap(), None);
        let (first, made) = Secret::read_or_create(&path, None, &entropy).unwrap();
        let mode = || std::fs::metadata(&path).unwrap().mode() & 0o7777;
        assert!(made && mode() == 0o600);
        let (second, made) = Secret::read_or_create(&path, None, &entropy).unwrap();
        assert!(!made && first == second);
        let opened = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        std::fs::set_permissions(&path, opened).unwrap();
        Secret::read(&path).unwrap();
        assert_eq!(mode(), 0o600, "it is mended");
    }

    #[test]
    fn a_lost_secret_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        let lost = Some("/data belongs to cluster ab".to_string());
        let error = Secret::read_or_create(&path, lost, &SeededEntropy::new(1)).unwrap_err().to_string();
        assert!(error.contains("/data belongs to cluster ab; bring it back"), "{error}");
        assert!(!path.exists());
    }

    #[test]
    fn a_damaged_secret_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        for text in ["", "00", &"g".repeat(64), &"0".repeat(63), &"0".repeat(65), &"é".repeat(32)] {
            std::fs::write(&path, text).unwrap();
            assert!(matches!(Secret::read(&path), Err(SecretError::Malformed(_))), "{text}");
        }
        std::fs::write(&path, [0xff; 64]).unwrap();
        assert!(matches!(Secret::read(&path), Err(SecretError::Malformed(_))));
    }

    #[test]
    fn what_is_derived_differs_by_purpose_and_by_secret() {
        let (a, b) = (Secret([1; 32]), Secret([2; 32]));
        assert_ne!(a.cluster(), b.cluster());
        assert_ne!(a.peer_key().secret, b.peer_key().secret);
        assert_ne!(a.peer_key().secret[..16], a.cluster());
        assert_eq!(format!("{a:?}"), "Secret(…)");
    }
}
