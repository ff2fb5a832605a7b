//! One more target for a data server, while it runs or before its next start: whether a directory can be one, and the
//! steps that take it in.
//!
//! ```text
//! check, changing nothing ─▶ open ─▶ note in server.targets ─▶ list of targets ─▶ registration, at once
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use host::watch::Receiver;
use rustix::fs::Access;
use rustix::io::Errno;

use crate::held_dir::HeldDir;
use crate::identity::Identity;
use crate::known_targets::KnownTargets;
use crate::server::DataServer;
use crate::target::{Target, TargetError};
use crate::targets::TargetList;

/// Cause why a directory cannot be one more target of a data server, and the remedy. One line.
#[derive(Debug, thiserror::Error)]
pub enum AdditionError {
    /// A relative path: the server has another working directory than the operator.
    #[error("{0}: is not an absolute path; name the directory from the root on, such as /data/sdc")]
    Relative(PathBuf),
    /// A path that the files of the server cannot hold.
    #[error("{0:?}: its name is not UTF-8, or has control characters; rename the directory")]
    Name(PathBuf),
    /// Nothing is there.
    #[error("{0}: is not there; make the directory, or mount the disk that it should be on")]
    NotThere(PathBuf),
    /// A file, for example.
    #[error("{0}: is not a directory; name an empty directory on the disk")]
    NotADirectory(PathBuf),
    /// The server has it.
    #[error("{0}: is a target of this data server already; heorot target list shows them")]
    IsTarget(PathBuf),
    /// The server has it, and it was not there at the start.
    #[error(
        "{0}: is a target of this data server that was not there at its start; mount its disk, then restart the data server"
    )]
    IsAbsent(PathBuf),
    /// Below another target.
    #[error("{0}: is inside the target {1}, which has its directory for itself; name another directory")]
    Inside(PathBuf, PathBuf),
    /// Above another target.
    #[error(
        "{0}: has the target {1} inside, and a target has its directory for itself; name another directory"
    )]
    Above(PathBuf, PathBuf),
    /// A file system that is read-only, at least for this process.
    #[error(
        "{0}: is read-only for this process; mount it to write, and, where systemd runs heorot, name it in ReadWritePaths= of \
         its unit"
    )]
    ReadOnly(PathBuf),
    /// The kernel refuses a look at it.
    #[error("{0}: cannot be read and written by this process: {1}; give it to the user that heorot runs as")]
    Forbidden(PathBuf, std::io::Error),
    /// Objects of other metadata.
    #[error(
        "{0}: its objects are those of another name space of this cluster than the objects of {1}; name an empty directory"
    )]
    OtherNameSpace(PathBuf, PathBuf),
    /// Objects that obey other metaservers.
    #[error(
        "{0}: obeys another incarnation of the metaservers than {1}, since one of them was away when a backup was restored; \
         add it to `targets` in the file of this data server, restart it, and run heorot ds adopt"
    )]
    OtherIncarnation(PathBuf, PathBuf),
    /// As at a start.
    #[error(transparent)]
    Target(#[from] TargetError),
}

/// The directory as it is noted: without `.` and a slash at the end; a path with `..` by its real one.
///
/// # Errors
/// [`AdditionError`]: it is not absolute, or not there.
pub fn plain_path(dir: &Path) -> Result<PathBuf, AdditionError> {
    if !dir.is_absolute() {
        return Err(AdditionError::Relative(dir.into()));
    }
    let has_parents = dir.components().any(|part| part == std::path::Component::ParentDir);
    let plain = if has_parents { dir.canonicalize() } else { Ok(dir.components().collect()) };
    let plain = plain.map_err(|error| missing(dir, error))?;
    let is_text = plain.to_str().is_some_and(|text| !text.contains(char::is_control));
    if is_text { Ok(plain) } else { Err(AdditionError::Name(plain)) }
}

/// True if both paths lead to one directory.
#[must_use]
pub fn is_same_directory(one: &Path, other: &Path) -> bool {
    real(one) == real(other)
}

/// Checks, without a change, that `dir` can be a target beside the `others` of a data server of this cluster. Returns
/// the id of the target that it is already; none: it is empty. Blocks.
///
/// # Errors
/// [`AdditionError`].
pub fn check_addition(
    dir: &Path,
    cluster: [u8; 16],
    data_dir: &Path,
    others: &[PathBuf],
) -> Result<Option<u64>, AdditionError> {
    let found = std::fs::metadata(dir).map_err(|error| missing(dir, error))?;
    if !found.is_dir() {
        return Err(AdditionError::NotADirectory(dir.into()));
    }
    check_place(dir, others)?;
    match rustix::fs::access(dir, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => {}
        Err(Errno::ROFS) => return Err(AdditionError::ReadOnly(dir.into())),
        Err(error) => return Err(AdditionError::Forbidden(dir.into(), error.into())),
    }
    let own = Target::look(dir, cluster)?;
    match own {
        Some(own) => check_belonging(dir, own, cluster, others)?,
        None => KnownTargets::read(data_dir)?.check_new(dir)?,
    }
    let io = |error| TargetError::Io { doing: "open", path: dir.into(), error };
    if Target::is_locked(dir).map_err(io)? {
        return Err(TargetError::Locked(dir.into()).into());
    }
    if !HeldDir::open(dir).map_err(io)?.has_xattrs() {
        return Err(TargetError::NoXattrs(dir.into()).into());
    }
    Ok(own.map(|own| own.id))
}

fn missing(dir: &Path, error: std::io::Error) -> AdditionError {
    match error.kind() {
        std::io::ErrorKind::NotFound => AdditionError::NotThere(dir.into()),
        std::io::ErrorKind::NotADirectory => AdditionError::NotADirectory(dir.into()),
        _ => AdditionError::Forbidden(dir.into(), error),
    }
}

/// The path without links; of a directory that is not there, as it is.
fn real(dir: &Path) -> PathBuf {
    dir.canonicalize().unwrap_or_else(|_| dir.components().collect())
}

fn check_place(dir: &Path, others: &[PathBuf]) -> Result<(), AdditionError> {
    let place = real(dir);
    for other in others {
        let (dir, other_place) = (dir.to_owned(), real(other));
        if place == other_place {
            return Err(AdditionError::IsTarget(dir));
        }
        if place.starts_with(&other_place) {
            return Err(AdditionError::Inside(dir, other.clone()));
        }
        if other_place.starts_with(&place) {
            return Err(AdditionError::Above(dir, other.clone()));
        }
    }
    Ok(())
}

/// Checks that a target with objects belongs to the same metadata as the others.
fn check_belonging(
    dir: &Path,
    own: Identity,
    cluster: [u8; 16],
    others: &[PathBuf],
) -> Result<(), AdditionError> {
    for other in others {
        // One that is absent says nothing.
        let Ok(Some(its)) = Target::look(other, cluster) else { continue };
        let differ = |one: Option<u64>, other: Option<u64>| one.is_some() && other.is_some() && one != other;
        if own.id == its.id {
            return Err(TargetError::Twice(dir.into(), other.clone()).into());
        }
        if differ(own.name_space, its.name_space) {
            return Err(AdditionError::OtherNameSpace(dir.into(), other.clone()));
        }
        if differ(own.incarnation, its.incarnation) {
            return Err(AdditionError::OtherIncarnation(dir.into(), other.clone()));
        }
    }
    Ok(())
}

/// Notice of targets that are added.
pub struct Additions(Receiver<TargetList>);

impl Additions {
    /// Returns when one was added since the last notice.
    pub async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending().await // the server is gone
        }
    }
}

impl DataServer {
    /// Directories of its targets, those that were absent at the start included.
    #[must_use]
    pub fn target_paths(&self) -> Vec<PathBuf> {
        let absent = self.targets.absent().iter().map(|target| target.path.clone());
        self.present_targets().iter().map(|target| target.path().to_owned()).chain(absent).collect()
    }

    /// Checks, without a change, that `dir` can be one more target, beside `others`, too, which the server does not
    /// have yet. Returns the id of the target that it is already; none: it is empty. Blocks.
    ///
    /// # Errors
    /// [`AdditionError`].
    pub fn check_addition(&self, dir: &Path, others: &[PathBuf]) -> Result<Option<u64>, AdditionError> {
        let opener = self.targets.opener();
        if self.targets.absent().iter().any(|absent| is_same_directory(&absent.path, dir)) {
            return Err(AdditionError::IsAbsent(dir.into()));
        }
        let own = self.target_paths();
        let others: Vec<PathBuf> = own.into_iter().chain(others.iter().cloned()).collect();
        let id = check_addition(dir, opener.cluster, &opener.data_dir, &others)?;
        if let Some(absent) = self.targets.absent().iter().find(|absent| Some(absent.id) == id) {
            return Err(TargetError::Twice(dir.into(), absent.path.clone()).into());
        }
        Ok(id)
    }

    /// Takes in one more target: it is opened, cared for, reported and served from then on. Returns its id. Blocks.
    ///
    /// # Errors
    /// [`AdditionError`]; the server is as before then.
    pub fn add_target(&self, dir: &Path) -> Result<u64, AdditionError> {
        let _alone = self.adding.lock();
        self.check_addition(dir, &[])?;
        let target = self.targets.opener().open(dir)?;
        let before = self.present_targets();
        // It serves at once what the others do; without that, its server would be told to obey first.
        let belonging = before.iter().find_map(|other| Some((other.name_space()?, other.incarnation()?)));
        if let Some((name_space, incarnation)) = belonging {
            target.belong_to(name_space, incarnation)?;
        }
        let all: Vec<Arc<Target>> = before.iter().cloned().chain([Arc::clone(&target)]).collect();
        KnownTargets::read(&self.targets.opener().data_dir)?.note(&all, self.targets.absent())?;
        self.targets.suspect().meet(&target);
        self.chains.begin_logs(&target);
        let id = target.id();
        tracing::info!(target = %target.path().display(), id = %format!("{id:016x}"), "a storage target is added");
        self.targets.put(target);
        Ok(id)
    }

    /// Notice of targets that are added from now on.
    #[must_use]
    pub fn additions(&self) -> Additions {
        Additions(self.targets.watch())
    }

    /// Returns once a metaserver has completed a registration with this target.
    pub async fn until_registered(&self, target: u64) {
        let _ = self.targets.registered().wait_for(|ids| ids.contains(&target)).await;
    }
}
