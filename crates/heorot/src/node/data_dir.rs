//! Data directory: belongs to one cluster and one kind of server; one process uses it at a time.
//!
//! ```text
//! lock            held, with the holder's process id
//! identity.toml   format, kind, cluster; written last, so that a directory with it is complete
//! ```
//!
//! Only the server's user can read the directory and its files; each start restores these modes, for a
//! metaserver also of the whole tree below. The targets of data servers protect their own files.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use host::{SystemFiles, private};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

const FORMAT: u32 = 1;
const LOCK_FILE: &str = "lock";
const IDENTITY_FILE: &str = "identity.toml";
const IDENTITY_NEW: &str = "identity.toml.new";

/// Error of a directory that cannot be used, with its remedy. One line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DataDirError {
    #[error("{path}: cannot {doing}: {error}; name a directory that heorot can write to")]
    Io { doing: &'static str, path: PathBuf, error: io::Error },
    #[error("{path}: already in use by process {pid}; stop it, or name another directory")]
    InUse { path: PathBuf, pid: String },
    #[error("{path}: not empty and not a directory of heorot (it holds {found:?}); name an empty directory")]
    NotOurs { path: PathBuf, found: String },
    #[error("{path}: belongs to a {found}, not to a {wanted}; name another directory")]
    Kind { path: PathBuf, found: String, wanted: &'static str },
    #[error(
        "{path}: belongs to cluster {found}, but the secret is that of cluster {wanted}; name this cluster's \
         directory, an empty one, or the other cluster's secret"
    )]
    OtherCluster { path: PathBuf, found: String, wanted: String },
    #[error(
        "{path}: written in format {format}, and this version knows {FORMAT} only; run the version that wrote it"
    )]
    Format { path: PathBuf, format: u32 },
    #[error("{path}: {why}; bring it back from a copy")]
    Malformed { path: PathBuf, why: String },
    #[error(
        "{path}: others may read it, and it cannot be made private (modes 0700 and 0600): {error}; give it to the user that \
         heorot runs as, with chown -R"
    )]
    Open { path: PathBuf, error: io::Error },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    format: u32,
    kind: String,
    cluster: String,
    /// Number of data servers of `heorot up` here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data_servers: Option<u16>,
    /// Number of metaservers, each a process of its own; none: one, in the process of `heorot up`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metaservers: Option<u16>,
    /// Member id in the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    member: Option<u64>,
}

/// Directory, locked for this process.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    kind: &'static str,
    identity: Option<Identity>,
    _lock: File,
}

impl DataDir {
    /// Locks the directory, and makes it if necessary. Then [`DataDir::claim`] it.
    pub(crate) fn open(path: &Path, kind: &'static str) -> Result<Self, DataDirError> {
        // The directory may belong to another program: do not change its modes yet.
        std::fs::create_dir_all(path).map_err(io_error("create", path))?;
        let file = path.join(IDENTITY_FILE);
        let identity = read_identity(&file)?;
        if identity.is_none() {
            check_empty(path)?;
        }
        let lock = lock(path)?;
        match identity {
            Some(found) if found.kind != kind => {
                Err(DataDirError::Kind { path: path.into(), found: found.kind, wanted: kind })
            }
            identity => {
                close(path, kind).map_err(|error| DataDirError::Open { path: path.into(), error })?;
                Ok(Self { path: path.into(), kind, identity, _lock: lock })
            }
        }
    }

    /// Cluster that a directory belongs to, without a change of it; none: it is empty or does not exist.
    pub(crate) fn look(path: &Path) -> Result<Option<String>, DataDirError> {
        let identity = read_identity(&path.join(IDENTITY_FILE))?;
        if identity.is_none() && path.symlink_metadata().is_ok() {
            check_empty(path)?;
        }
        Ok(identity.map(|identity| identity.cluster))
    }

    /// Path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Cluster that the directory belongs to; none: it is new.
    pub(crate) fn cluster(&self) -> Option<&str> {
        self.identity.as_ref().map(|identity| identity.cluster.as_str())
    }

    /// Recorded number of data servers.
    pub(crate) fn data_servers(&self) -> Option<u16> {
        self.identity.as_ref()?.data_servers
    }

    /// Recorded number of metaservers.
    pub(crate) fn metaservers(&self) -> Option<u16> {
        self.identity.as_ref()?.metaservers
    }

    /// Recorded member id.
    pub(crate) fn member(&self) -> Option<u64> {
        self.identity.as_ref()?.member
    }

    /// Checks that the directory belongs to this cluster.
    pub(crate) fn check(&self, cluster: &[u8; 16]) -> Result<(), DataDirError> {
        let wanted = hex::encode(cluster);
        match self.cluster() {
            Some(found) if found != wanted => {
                Err(DataDirError::OtherCluster { path: self.path.clone(), found: found.into(), wanted })
            }
            _ => Ok(()),
        }
    }

    /// Records the directory's cluster, durably; call it after everything else in it is made.
    pub(crate) fn claim(
        &mut self,
        cluster: &[u8; 16],
        data_servers: Option<u16>,
    ) -> Result<(), DataDirError> {
        self.note(cluster, |identity| identity.data_servers = data_servers)
    }

    /// As [`DataDir::claim`], with the number of metaservers.
    pub(crate) fn claim_group(
        &mut self,
        cluster: &[u8; 16],
        data_servers: u16,
        metaservers: u16,
    ) -> Result<(), DataDirError> {
        self.note(cluster, |identity| {
            (identity.data_servers, identity.metaservers) = (Some(data_servers), Some(metaservers));
        })
    }

    /// As [`DataDir::claim`], with the member id.
    pub(crate) fn claim_member(&mut self, cluster: &[u8; 16], member: u64) -> Result<(), DataDirError> {
        self.note(cluster, |identity| identity.member = Some(member))
    }

    fn note(&mut self, cluster: &[u8; 16], note: impl FnOnce(&mut Identity)) -> Result<(), DataDirError> {
        self.check(cluster)?;
        let new = || Identity {
            format: FORMAT,
            kind: self.kind.to_string(),
            cluster: hex::encode(cluster),
            data_servers: None,
            metaservers: None,
            member: None,
        };
        let mut identity = self.identity.clone().unwrap_or_else(new);
        note(&mut identity);
        if self.identity.as_ref() != Some(&identity) {
            write_identity(&self.path, &identity).map_err(io_error("write identity.toml in", &self.path))?;
            self.identity = Some(identity);
        }
        Ok(())
    }
}

/// Closes the directory to other users. Only for a directory of this program.
fn close(dir: &Path, kind: &str) -> io::Result<()> {
    // Other kinds have targets below, which their data servers close.
    if kind == crate::servers::mds::KIND { private::close_tree(dir) } else { private::close_files(dir) }
}

fn io_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DataDirError + use<> {
    let path = path.to_owned();
    move |error| DataDirError::Io { doing, path, error }
}

fn lock(dir: &Path) -> Result<File, DataDirError> {
    let path = dir.join(LOCK_FILE);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(private::FILE_MODE);
    let mut file = options.open(&path);
    let file = file.as_mut().map_err(|e| io_error("open", &path)(io::Error::new(e.kind(), e.to_string())))?;
    match flock(&*file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let pid = std::fs::read_to_string(&path).unwrap_or_default().trim().to_string();
            let pid = if pid.is_empty() { "(unknown)".to_string() } else { pid };
            return Err(DataDirError::InUse { path: dir.into(), pid });
        }
        Err(e) => return Err(io_error("lock", &path)(e.into())),
    }
    let note = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    note.map_err(io_error("write", &path))?;
    file.try_clone().map_err(io_error("open", &path))
}

fn read_identity(file: &Path) -> Result<Option<Identity>, DataDirError> {
    let malformed = |why: String| DataDirError::Malformed { path: file.into(), why };
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(io_error("read", file)(e)),
    };
    // Check the format first: another format may have other keys.
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| malformed(e.message().into()))?;
    let format = table.get("format").and_then(toml::Value::as_integer);
    match format.and_then(|f| u32::try_from(f).ok()) {
        None => return Err(malformed("does not say its format".into())),
        Some(FORMAT) => {}
        Some(format) => return Err(DataDirError::Format { path: file.into(), format }),
    }
    table.try_into().map(Some).map_err(|e: toml::de::Error| malformed(e.message().into()))
}

/// Writes the file atomically.
fn write_identity(dir: &Path, identity: &Identity) -> io::Result<()> {
    let text = toml::to_string(identity).map_err(io::Error::other)?;
    host::replace(&SystemFiles, &dir.join(IDENTITY_FILE), text.as_bytes())
}

/// Refuses all files except those that an interrupted first start may leave.
fn check_empty(dir: &Path) -> Result<(), DataDirError> {
    const LEFT_OVER: [&str; 11] = [
        LOCK_FILE,
        IDENTITY_NEW,
        "lost+found",
        "secret",
        "secret.new",
        "secret.founded",
        "secret.founded.new",
        "log",
        "namespace.redb",
        "members",
        "members.new",
    ];
    for entry in std::fs::read_dir(dir).map_err(io_error("read", dir))? {
        let name = entry.map_err(io_error("read", dir))?.file_name().to_string_lossy().into_owned();
        let stem = name.strip_suffix(".new").unwrap_or(&name);
        let stem = stem.strip_suffix(".toml").unwrap_or(stem);
        let numbered =
            |prefix| stem.strip_prefix(prefix).is_some_and(|n| n.is_empty() || n.parse::<u16>().is_ok());
        if !LEFT_OVER.contains(&name.as_str()) && !numbered("ds") && !numbered("mds") {
            return Err(DataDirError::NotOurs { path: dir.into(), found: name });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: [u8; 16] = [0xaa; 16];
    const B: [u8; 16] = [0xbb; 16];

    #[test]
    fn a_directory_remembers_its_cluster_and_what_it_is_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        let mut data = DataDir::open(&path, "metaserver").unwrap();
        assert_eq!((data.cluster(), data.data_servers()), (None, None));
        data.claim(&A, Some(4)).unwrap();
        drop(data);

        let data = DataDir::open(&path, "metaserver").unwrap();
        assert_eq!(data.data_servers(), Some(4));
        assert!(data.check(&A).is_ok());
        let error = data.check(&B).unwrap_err().to_string();
        assert!(error.contains(&format!("belongs to cluster {}, but", "aa".repeat(16))), "{error}");
        assert!(error.contains("name this cluster's directory") && !error.contains('\n'), "{error}");
        drop(data);

        let error = DataDir::open(&path, "heorot up").unwrap_err().to_string();
        assert!(
            error.contains("belongs to a metaserver, not to a heorot up; name another directory"),
            "{error}"
        );
    }

    #[test]
    fn a_directory_is_used_by_one_process() {
        let dir = tempfile::tempdir().unwrap();
        let held = DataDir::open(dir.path(), "metaserver").unwrap();
        let error = DataDir::open(dir.path(), "metaserver").unwrap_err().to_string();
        assert!(error.contains(&format!("already in use by process {}; ", std::process::id())), "{error}");
        drop(held);
        DataDir::open(dir.path(), "metaserver").unwrap();
    }

    #[test]
    fn a_directory_of_someone_else_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("thesis.tex"), "…").unwrap();
        let error = DataDir::open(dir.path(), "metaserver").unwrap_err().to_string();
        assert!(error.contains("\"thesis.tex\"") && error.ends_with("name an empty directory"), "{error}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no lock was left there");
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = DataDir::open(&file.join("below"), "metaserver").unwrap_err().to_string();
        assert!(error.contains("file/below: cannot create: Not a directory"), "{error}");
    }

    #[test]
    fn a_later_format_and_a_damaged_identity_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let identity = dir.path().join(IDENTITY_FILE);
        let open = |text: &str| {
            std::fs::write(&identity, text).unwrap();
            DataDir::open(dir.path(), "metaserver").unwrap_err().to_string()
        };
        assert!(open("format = 2\nnews = 1").contains("run the version that wrote it"));
        assert!(open("format = 1").contains("bring it back from a copy"));
        assert!(open("\0").contains("bring it back from a copy"));
    }
}
