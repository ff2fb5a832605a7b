//! Volumes: requests of administrators.

use cluster::AdminError;
use namespace::{
    Command, Error, InodeId, NewAttributes, NewVolume, Reply, Time, VOLUMES_MAX, Volume, VolumeId, read,
};
use store::View;

use crate::admin::stripe::{NewStripe, server_failed, walk, written_out};
use crate::errors::FileError;
use crate::{Metaserver, names};

/// Permission bits of a new root: as those of the root of the name space. Its owner may change them.
const ROOT_MODE: u32 = 0o755;

/// A volume, for a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeReport {
    /// Its id; 0: the first volume, which has the root of the name space.
    pub id: u32,
    /// Path of its root; none: it was removed, and its files are still being deleted.
    pub path: Option<String>,
    /// Files, directories and all else in it; of a removed one those that are still there.
    pub inodes: u64,
    /// Bytes in it, as `du` shows them; of a removed one 0.
    pub bytes: u64,
    /// Volumes in it.
    pub volumes: u32,
    /// Snapshots of it.
    pub snapshots: u32,
    /// Bytes that are kept for them alone.
    pub snapshot_bytes: u64,
    /// Time of its creation.
    pub created: Option<Time>,
    /// Of a clone: what it shares its data with.
    pub origin: Option<OriginReport>,
}

/// What a clone shares its data with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginReport {
    /// `VOLUME@NAME`.
    pub snapshot: String,
    /// True while it gets records and objects of its own for all.
    pub is_ending: bool,
}

/// Entry of a volume's root: the directory, the name, and the path of both.
pub(super) struct Place {
    pub dir: InodeId,
    pub name: Vec<u8>,
    pub path: String,
}

impl Metaserver {
    /// Returns all volumes by id, and after them those that are being removed.
    ///
    /// # Errors
    /// [`AdminError::Failed`].
    pub async fn volumes_report(&self) -> Result<Vec<VolumeReport>, AdminError> {
        self.cluster.agree().await?;
        let view = self.machine.view().map_err(server_failed)?;
        let mut reports = Vec::new();
        for Volume { id, usage, volumes, created, .. } in read::volumes(&*view)? {
            let path = self.admission.path_of_directory(&*view, id.root()).map_err(server_failed)?;
            let (inodes, path, created) = (usage.inodes, Some(path), Some(created));
            let history = read::history(&*view, id)?;
            reports.push(VolumeReport {
                id: id.0,
                path,
                inodes,
                bytes: usage.bytes_shown(),
                volumes,
                snapshots: history.count,
                snapshot_bytes: u64::try_from(history.bytes).unwrap_or(u64::MAX),
                created,
                origin: self.origin_report(&*view, id)?,
            });
        }
        let removed = read::removed_volumes(&*view)?.into_iter();
        reports.extend(removed.map(|(VolumeId(id), inodes)| VolumeReport {
            id,
            path: None,
            inodes,
            bytes: 0,
            volumes: 0,
            snapshots: 0,
            snapshot_bytes: 0,
            created: None,
            origin: None,
        }));
        Ok(reports)
    }

    /// Makes a volume whose root is `path`, and returns a message. `stripe`: its policy; none: as in the directory
    /// above.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn volume_create(&self, path: &str, stripe: Option<NewStripe>) -> Result<String, AdminError> {
        self.cluster.agree().await?;
        let stripe = match stripe {
            None => None,
            Some(new) => Some(self.data.ready_policy(&new, None).await?),
        };
        let Place { dir, name, path } = place(&*self.machine.view().map_err(server_failed)?, path)?;
        let attributes = NewAttributes { mode: ROOT_MODE, uid: 0, gid: 0, accessed: None, modified: None };
        let make = Command::MakeVolume(NewVolume { dir, name, attributes, stripe });
        match self.state.propose(None, make).await.map_err(|error| refusal(&path, error))? {
            Reply::Created { inode, .. } => {
                let volume = inode.id.volume().0;
                tracing::info!(path, volume, "a volume is made");
                Ok(format!("{path} is a volume"))
            }
            other => Err(AdminError::Failed(format!("{other:?}"))),
        }
    }

    /// Gives the root of a volume another name or place in the volume that it is in, and returns a message.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn volume_rename(&self, from: &str, to: &str) -> Result<String, AdminError> {
        self.cluster.agree().await?;
        let (from, to) = {
            let view = self.machine.view().map_err(server_failed)?;
            let from = self.place_of_volume(&*view, from)?;
            let to = place(&*view, to)?;
            if read::lookup(&*view, to.dir, &to.name)?.is_some() {
                return Err(AdminError::Invalid(format!("{} exists", to.path)));
            }
            if from.dir.volume() != to.dir.volume() {
                return Err(AdminError::Invalid(format!(
                    "{} is in another volume; a volume stays in the one that it is in",
                    to.path
                )));
            }
            (from, to)
        };
        let rename = Command::Rename { from_dir: from.dir, from: from.name, to_dir: to.dir, to: to.name };
        self.state.propose(None, rename).await.map_err(|error| refusal(&from.path, error))?;
        tracing::info!(from = from.path, to = to.path, "a volume is renamed");
        Ok(format!("{} is {} now", from.path, to.path))
    }

    /// Removes a volume, and returns a message. Without `force`: only if it has no files.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn volume_remove(&self, path: &str, force: bool) -> Result<String, AdminError> {
        self.cluster.agree().await?;
        let (Place { dir, name, path }, inodes) = {
            let view = self.machine.view().map_err(server_failed)?;
            let place = self.place_of_volume(&*view, path)?;
            let root = read::lookup(&*view, place.dir, &place.name)?;
            let volume = root.map(|root| read::volume(&*view, root.volume())).transpose()?.flatten();
            if let Some(volume) = volume.as_ref().filter(|_| !force) {
                let id = volume.id;
                self.boots_nothing(&place.path, |one| one.volume == id)?;
            }
            (place, volume.map_or(0, |volume| volume.usage.inodes.saturating_sub(1)))
        };
        let remove = Command::RemoveVolume { dir, name, force };
        self.state.propose(None, remove).await.map_err(|error| match error {
            FileError::NotEmpty => AdminError::Invalid(format!(
                "{path} has {inodes} files and directories; with --force they are removed, too, and do not come back"
            )),
            other => refusal(&path, other),
        })?;
        tracing::info!(path, inodes, force, "a volume is removed");
        Ok(match inodes {
            0 => format!("{path} is removed"),
            inodes => format!(
                "{path} is removed; its {inodes} files and directories are being deleted (heorot volume list)"
            ),
        })
    }

    /// Place of a volume beside the first.
    fn place_of_volume(&self, view: &dyn View, path: &str) -> Result<Place, AdminError> {
        let way = walk(view, path)?;
        let root = way.last().map_or(InodeId::ROOT, |(inode, ..)| *inode);
        let path = written_out(&way);
        if root == InodeId::ROOT {
            return Err(AdminError::Invalid("/ is the first volume, which is always there".into()));
        }
        if !root.is_root() {
            return Err(AdminError::Invalid(format!(
                "{path} is a directory, and no volume; heorot volume list shows the volumes"
            )));
        }
        place(view, &path)
    }
}

/// Directory, and name in it, of a path whose last name may be new.
pub(super) fn place(view: &dyn View, path: &str) -> Result<Place, AdminError> {
    let trimmed = path.trim_end_matches('/');
    let (above, name) = trimmed.rsplit_once('/').unwrap_or(("", trimmed));
    let name = names::checked(name.as_bytes()).map_err(|_| {
        AdminError::Invalid(format!(
            "{path:?} does not end in a name; names have up to {} bytes, and are not . or ..",
            names::NAME_BYTES_MAX
        ))
    })?;
    let way = walk(view, above)?;
    let dir = way.last().map_or(InodeId::ROOT, |(inode, ..)| *inode);
    let above = written_out(&way);
    let path = format!("{}/{}", above.trim_end_matches('/'), String::from_utf8_lossy(&name));
    Ok(Place { dir, name, path })
}

/// Message for a command that was refused.
pub(super) fn refusal(path: &str, error: FileError) -> AdminError {
    let why = match error {
        FileError::Exists => format!("{path} exists; a volume begins as a new directory"),
        FileError::NotDirectory => format!("the directory above {path} is none"),
        FileError::ReadOnly => format!("the directory above {path} is in a snapshot, which nothing changes"),
        FileError::NoEntry | FileError::Stale => format!("{path} was removed or renamed meanwhile"),
        FileError::State(Error::HoldsSnapshots) => {
            format!("there are snapshots of {path}: remove them first (heorot snapshot list {path})")
        }
        FileError::State(Error::HoldsVolumes) => format!("other volumes are in {path}: remove them first"),
        FileError::State(Error::FilesOpen) => {
            format!("clients have files of {path} open; with --force they get errors (ESTALE) from now on")
        }
        FileError::State(Error::TooManyVolumes) => format!("there are {VOLUMES_MAX} volumes, the maximum"),
        FileError::NoSpace => "no space for metadata: free some in the data directory".into(),
        other => return server_failed(other),
    };
    AdminError::Invalid(why)
}

#[cfg(test)]
mod tests {
    use namespace::{Proposal, Stamp, apply};
    use store::{Durability, MemoryStore, Store};

    use super::*;

    #[test]
    fn a_place_is_a_directory_that_is_there_and_a_name_that_may_be_new() {
        let memory = MemoryStore::new();
        let attributes = NewAttributes { mode: ROOT_MODE, uid: 0, gid: 0, accessed: None, modified: None };
        let make = |dir, name: &str| {
            Command::MakeVolume(NewVolume { dir, name: name.into(), attributes, stripe: None })
        };
        let mut all = |edit: &mut dyn store::Edit| {
            namespace::format(edit, &Stamp::default(), [7; 16])?;
            for command in [make(InodeId::ROOT, "a"), make(VolumeId(1).root(), "b")] {
                apply(edit, &Proposal::new(Stamp::default(), None, command))?;
            }
            Ok(())
        };
        memory.batch(Durability::Immediate, &mut all).unwrap();
        let view = memory.snapshot().unwrap();
        let place = |path: &str| place(&*view, path).map(|place| (place.dir.volume().0, place.path));
        assert_eq!(place("/a"), Ok((0, "/a".into())));
        assert_eq!(place("new/"), Ok((0, "/new".into())));
        assert_eq!(place("//a//b/c"), Ok((2, "/a/b/c".into())));
        assert_eq!(place("/a/b/../d"), Ok((1, "/a/d".into())));
        assert_eq!(place("/x/y"), Err(AdminError::NotFound("/x".into())));
        for path in ["", "/", "/a/..", "/a/.", "/a/\0"] {
            assert!(matches!(place(path), Err(AdminError::Invalid(_))), "{path:?}");
        }
    }
}
