//! Identity files: small text files with the format, the kind, the cluster and the id of a directory.
//!
//! ```text
//! format = 3
//! kind = "storage target"
//! cluster = "00112233445566778899aabbccddeeff"
//! id = "0123456789abcdef"
//! ```

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use host::{Entropy, SystemFiles, private};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// The format. In the one before, no object was attached to another one.
const FORMAT: u32 = 3;
/// The earliest format that is read; before it, objects had no checksums.
const FORMAT_READ: u32 = 2;
/// The temporary file that an interrupted creation leaves.
pub(crate) const UNFINISHED: &str = "target.toml.new";
/// Prefix of the names of a data server's own files.
pub(crate) const SERVER_PREFIX: &str = "server.";

/// Cause why an identity file cannot be used, and the remedy. One line.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// Not readable or not writable.
    #[error("{0}: {1}; the server needs to read and write here")]
    Io(PathBuf, io::Error),
    /// Not a text that this program wrote.
    #[error("{0}: {1}; bring it back from a copy")]
    Malformed(PathBuf, String),
    /// A later version wrote it.
    #[error(
        "{0}: format {1} is not known to this version, which knows 2 and 3; run the version that wrote it"
    )]
    Format(PathBuf, u32),
    /// Another kind of directory.
    #[error("{0}: is the identity of a {1}, not of a {2}; name another directory")]
    Kind(PathBuf, String, &'static str),
    /// The identity of another cluster.
    #[error("{0}: belongs to cluster {1}, not to {2}; name a directory of this cluster or an empty one")]
    OtherCluster(PathBuf, String, String),
}

#[derive(Debug, Serialize, Deserialize)]
struct Text {
    format: u32,
    kind: String,
    cluster: String,
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name_space: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    incarnation: Option<String>,
}

/// Content of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub id: u64,
    /// Name space of a target's objects, once it is known.
    pub name_space: Option<u64>,
    /// Incarnation of the metaservers that a target obeys, once it is known.
    pub incarnation: Option<u64>,
}

/// Takes the lock file, for as long as the file stays open. None: another process has it.
pub(crate) fn lock(path: &Path) -> io::Result<Option<File>> {
    let file =
        OpenOptions::new().write(true).create(true).truncate(false).mode(private::FILE_MODE).open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// True if a process has the lock file; it is not made.
pub(crate) fn is_locked(path: &Path) -> io::Result<bool> {
    match File::open(path) {
        Ok(file) => match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(false),
            Err(Errno::WOULDBLOCK) => Ok(true),
            Err(e) => Err(e.into()),
        },
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

/// The identity in `path`, of this cluster; none: there is no file.
pub(crate) fn look(
    path: &Path,
    kind: &'static str,
    cluster: [u8; 16],
) -> Result<Option<Identity>, IdentityError> {
    match std::fs::read_to_string(path) {
        Ok(text) => read(path, &text, kind, &hex::encode(cluster)).map(|(_, identity)| Some(identity)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(IdentityError::Io(path.into(), e)),
    }
}

/// The identity in `path`; made, durably, if there is none. One of an earlier format gets this one: builds of before must
/// not open what is here from now on.
pub(crate) fn read_or_create(
    path: &Path,
    kind: &'static str,
    cluster: [u8; 16],
    entropy: &dyn Entropy,
) -> Result<Identity, IdentityError> {
    match std::fs::read_to_string(path) {
        Ok(text) => {
            let (format, identity) = read(path, &text, kind, &hex::encode(cluster))?;
            if format != FORMAT
                && let Err(error) = put(path, kind, hex::encode(cluster), identity)
            {
                tracing::warn!(%error, "the format of a directory cannot be noted: it is tried again at the next start");
            }
            return Ok(identity);
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(IdentityError::Io(path.into(), e)),
    }
    let identity = Identity { id: entropy.u64(), name_space: None, incarnation: None };
    put(path, kind, hex::encode(cluster), identity)?;
    Ok(identity)
}

/// Replaces the identity in `path` by `identity`, durably.
pub(crate) fn replace(
    path: &Path,
    kind: &'static str,
    cluster: [u8; 16],
    identity: Identity,
) -> Result<(), IdentityError> {
    put(path, kind, hex::encode(cluster), identity)
}

fn put(path: &Path, kind: &'static str, cluster: String, identity: Identity) -> Result<(), IdentityError> {
    let number = |number: u64| format!("{number:016x}");
    let (id, name_space) = (number(identity.id), identity.name_space.map(number));
    let incarnation = identity.incarnation.map(number);
    let text = Text { format: FORMAT, kind: kind.into(), cluster, id, name_space, incarnation };
    write(path, &text).map_err(|e| IdentityError::Io(path.into(), e))
}

/// The format and the identity in a text.
fn read(
    path: &Path,
    text: &str,
    kind: &'static str,
    cluster: &str,
) -> Result<(u32, Identity), IdentityError> {
    let malformed = |why: String| IdentityError::Malformed(path.into(), why);
    // The format first: another one may have other keys.
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| malformed(e.message().into()))?;
    match table.get("format").and_then(toml::Value::as_integer) {
        None => return Err(malformed("no `format` in it".into())),
        Some(format) if (i64::from(FORMAT_READ)..=i64::from(FORMAT)).contains(&format) => {}
        Some(format) => {
            return Err(IdentityError::Format(path.into(), u32::try_from(format).unwrap_or(u32::MAX)));
        }
    }
    let text: Text = table.try_into().map_err(|e: toml::de::Error| malformed(e.message().into()))?;
    if text.kind != kind {
        return Err(IdentityError::Kind(path.into(), text.kind, kind));
    }
    if text.cluster != cluster {
        return Err(IdentityError::OtherCluster(path.into(), text.cluster, cluster.into()));
    }
    let number = |key: &str, digits: &str| {
        let number = u64::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 16);
        number.ok_or_else(|| malformed(format!("`{key}` is not 16 hexadecimal digits")))
    };
    let name_space = text.name_space.map(|digits| number("name_space", &digits)).transpose()?;
    let incarnation = text.incarnation.map(|digits| number("incarnation", &digits)).transpose()?;
    Ok((text.format, Identity { id: number("id", &text.id)?, name_space, incarnation }))
}

/// The id in the text of an identity file, if it has one.
pub(crate) fn id_of(text: &str) -> Option<u64> {
    let text: Text = toml::from_str(text).ok()?;
    u64::from_str_radix(&text.id, 16).ok()
}

/// Replaces the file: there is never half a file of this name.
fn write(path: &Path, text: &Text) -> io::Result<()> {
    let text = toml::to_string(text).map_err(io::Error::other)?;
    host::replace(&SystemFiles, path, text.as_bytes())
}
