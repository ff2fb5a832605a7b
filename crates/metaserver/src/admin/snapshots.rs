//! Snapshots: requests of administrators.

use std::sync::Arc;
use std::time::Duration;

use cluster::AdminError;
use namespace::{
    Command, Error, InodeId, IoMode, LayoutState, Reply, SNAPSHOTS_OF_VOLUME_MAX, Snapshot, VolumeId, read,
};
use store::View;
use tokio::time::Instant;

use crate::admin::stripe::{server_failed, walk, written_out};
use crate::errors::FileError;
use crate::{Metaserver, names};

/// Time for which one request waits for layouts; its client asks again.
const WAIT_MAX: Duration = Duration::from_secs(4);
/// Time for which clients are asked for layouts before the next try. No new layout is granted meanwhile.
pub(super) const RECALL_MAX: Duration = Duration::from_secs(2);

/// Interval at which the end of a rollback is looked for.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Files whose delegations are recalled at a time.
const RECALLED_AT_ONCE: usize = 64;

/// A snapshot, for a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotReport {
    /// Path of its volume.
    pub volume: String,
    /// Its name; none: it was removed, and what was kept for it is still being deleted.
    pub name: Option<String>,
    /// Id of its files, for clients.
    pub id: Option<u32>,
    /// Time at which it was made, in seconds since 1970.
    pub created: Option<i64>,
}

/// Outcome of a request for a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SnapshotMade {
    /// It is there; has a message.
    Made(String),
    /// It was not made: clients write to files of the volume, and have not given their layouts back; has a message.
    NotYet(String),
}

impl Metaserver {
    /// Returns the snapshots of all volumes, or of the one at `path`, in the order of their making.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn snapshots_report(&self, path: Option<&str>) -> Result<Vec<SnapshotReport>, AdminError> {
        self.cluster.agree().await?;
        let view = self.machine.view().map_err(server_failed)?;
        let volumes = match path {
            Some(path) => vec![volume_at(&*view, path)?.0],
            None => read::volumes(&*view)?.into_iter().map(|volume| volume.id).collect(),
        };
        let removed = read::removed_snapshots(&*view)?;
        let mut reports = Vec::new();
        for id in volumes {
            let all = read::snapshots(&*view, id)?;
            let is_going = removed.iter().any(|(volume, _)| *volume == id);
            if all.is_empty() && !is_going {
                continue;
            }
            let volume = self.admission.path_of_directory(&*view, id.root()).map_err(server_failed)?;
            reports.extend(all.into_iter().map(|Snapshot { id, name, created, .. }| SnapshotReport {
                volume: volume.clone(),
                name: Some(String::from_utf8_lossy(&name).into_owned()),
                id: Some(id.0),
                created: Some(created.seconds),
            }));
            let going = SnapshotReport { volume, name: None, id: None, created: None };
            reports.extend(is_going.then_some(going));
        }
        Ok(reports)
    }

    /// Makes a snapshot of the volume at `path`: recalls the layouts with which clients write to it, and makes it when
    /// they are back.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn snapshot_create(&self, path: &str, name: &str) -> Result<SnapshotMade, AdminError> {
        self.cluster.agree().await?;
        let name = checked_name(name)?;
        let (volume, path) = volume_at(&*self.machine.view().map_err(server_failed)?, path)?;
        self.snapshot_of(volume, &path, &name).await
    }

    /// Makes a snapshot of a volume, whose path is for messages.
    ///
    /// # Errors
    /// [`AdminError`].
    pub(crate) async fn snapshot_of(
        &self,
        volume: VolumeId,
        path: &str,
        name: &[u8],
    ) -> Result<SnapshotMade, AdminError> {
        let until = Instant::now() + WAIT_MAX;
        let mut tries = 0;
        loop {
            tries += 1;
            if tries > 2 {
                tokio::time::sleep(LOOK_AGAIN).await; // what is left of clients that have ended is removed meanwhile
            }
            let make = Command::MakeSnapshot { volume, name: name.to_vec() };
            let made = self.state.propose(None, make).await;
            match made.map_err(|error| refusal(path, name, error))? {
                Reply::Snapshot { made: Some(Snapshot { id, .. }) } => {
                    let name = String::from_utf8_lossy(name);
                    tracing::info!(path, %name, snapshot = id.0, "a snapshot is made");
                    let place = format!("{}/.snapshot/{name}", path.trim_end_matches('/'));
                    return Ok(SnapshotMade::Made(format!(
                        "{path}@{name} is made; clients see it as {place}"
                    )));
                }
                Reply::Snapshot { made: None } => {}
                other => return Err(AdminError::Failed(format!("{other:?}"))),
            }
            if Instant::now() >= until {
                return Ok(SnapshotMade::NotYet(format!(
                    "clients write to files of {path}, and have not given their layouts back yet; those of a client that \
                     is dead are taken when its lease has run out (heorot status)"
                )));
            }
            self.end_writing(volume).await;
        }
    }

    /// Rolls the volume at `path` back to its newest snapshot, and waits until that is done. Without `force`: only if no
    /// client has a file of it open.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn snapshot_rollback(
        &self,
        path: &str,
        name: &str,
        force: bool,
    ) -> Result<SnapshotMade, AdminError> {
        self.cluster.agree().await?;
        let (volume, path) = volume_at(&*self.machine.view().map_err(server_failed)?, path)?;
        let until = Instant::now() + WAIT_MAX;
        let mut is_begun = read::rolls_back(&*self.machine.view().map_err(server_failed)?, volume)?;
        loop {
            if !is_begun {
                let roll_back = Command::RollBack { volume, name: name.into(), force };
                let begun = self.state.propose(None, roll_back).await;
                is_begun = match begun.map_err(|error| rollback_refusal(&path, name, error))? {
                    Reply::RolledBack { begun } => begun,
                    other => return Err(AdminError::Failed(format!("{other:?}"))),
                };
                if is_begun {
                    tracing::info!(path, name, force, "a volume is rolled back");
                } else {
                    self.end_writing(volume).await;
                    self.recall_delegations(volume).await;
                }
            }
            if is_begun && !read::rolls_back(&*self.machine.view().map_err(server_failed)?, volume)? {
                return Ok(SnapshotMade::Made(format!("{path} is as it was at {path}@{name}")));
            }
            if Instant::now() >= until {
                return Ok(SnapshotMade::NotYet(match is_begun {
                    true => format!("{path} is being rolled back; its clients wait"),
                    false => format!(
                        "clients have not given layouts or delegations of files of {path} back yet (those of a client that is \
                         dead are taken when its lease has run out), or a newer snapshot of it is still being removed"
                    ),
                }));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Recalls the delegations of a volume's files: a client tells then which of them it has open.
    async fn recall_delegations(&self, volume: VolumeId) {
        let files =
            self.machine.view().and_then(|view| Ok(read::delegated(&*view, volume, RECALLED_AT_ONCE)?));
        let recalled = files.unwrap_or_default().into_iter().map(|file| {
            let state = Arc::clone(&self.state);
            async move { state.recall_delegations(file, None).await }
        });
        if let Err(error) = futures_util::future::try_join_all(recalled).await {
            tracing::debug!(?error, volume = volume.0, "a rollback waits for delegations");
        }
    }

    /// Recalls the write delegations and the layouts to write of a volume, and settles the files.
    async fn end_writing(&self, volume: VolumeId) {
        let of_volume = move |layout: &LayoutState| {
            Ok(layout.mode == IoMode::ReadWrite && layout.inode.volume() == volume)
        };
        let ended = async {
            let layouts = Arc::clone(&self.state).recall_all(of_volume);
            let (writers, _) = tokio::join!(self.state.recall_writers_of(volume), layouts);
            writers?;
            self.data.settle_volume(volume).await
        };
        // A client that is dead, or a data server that hangs, holds it up: then the next try asks again.
        match tokio::time::timeout(RECALL_MAX, ended).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(?error, volume = volume.0, "files are not settled yet"),
            Err(_) => tracing::debug!(volume = volume.0, "layouts to write are not back yet"),
        }
    }

    /// Removes a snapshot, and returns a message. Without `force`: only if no client has a file of it open.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn snapshot_remove(&self, path: &str, name: &str, force: bool) -> Result<String, AdminError> {
        self.cluster.agree().await?;
        let (volume, path) = volume_at(&*self.machine.view().map_err(server_failed)?, path)?;
        let bytes = name.as_bytes().to_vec();
        if !force {
            self.boots_nothing(&format!("{path}@{name}"), |one| one.volume == volume && one.name == bytes)?;
        }
        let remove = Command::RemoveSnapshot { volume, name: bytes.clone(), force };
        match self.state.propose(None, remove).await {
            Ok(_) => {}
            Err(FileError::State(Error::HoldsClones)) => {
                return Err(self.held_by_clones(volume, &path, name)?);
            }
            Err(error) => return Err(refusal(&path, &bytes, error)),
        }
        tracing::info!(path, name, force, "a snapshot is removed");
        Ok(format!("{path}@{name} is removed"))
    }
}

impl Metaserver {
    /// Refuses to remove what nodes boot from.
    pub(super) fn boots_nothing(
        &self,
        what: &str,
        is_meant: impl Fn(&Snapshot) -> bool,
    ) -> Result<(), AdminError> {
        let names = self.booted_by(is_meant).map_err(server_failed)?;
        match names.is_empty() {
            true => Ok(()),
            false => Err(AdminError::Invalid(format!(
                "{what} is what {} boot (heorot boot list); with --force it is removed, and they do not boot any more",
                names.join(", ")
            ))),
        }
    }
}

/// Volume whose root is at `path`, and its path written out.
pub(crate) fn volume_at(view: &dyn View, path: &str) -> Result<(VolumeId, String), AdminError> {
    let way = walk(view, path)?;
    let root = way.last().map_or(InodeId::ROOT, |(inode, ..)| *inode);
    let path = written_out(&way);
    if root.is_read_only() {
        return Err(AdminError::Invalid(format!("{path} is in a snapshot, which has no snapshots itself")));
    }
    if !root.is_root() {
        return Err(AdminError::Invalid(format!(
            "{path} is a directory, and no volume: snapshots are of whole volumes (heorot volume list)"
        )));
    }
    Ok((root.volume(), path))
}

/// Name of a new snapshot.
fn checked_name(name: &str) -> Result<Vec<u8>, AdminError> {
    match names::checked(name.as_bytes()) {
        Ok(checked) if !name.contains('@') => Ok(checked),
        _ => Err(AdminError::Invalid(format!(
            "{name:?} cannot be the name of a snapshot: it is a directory for clients, of up to {} bytes, and has no @",
            names::NAME_BYTES_MAX
        ))),
    }
}

/// Message for a rollback that was refused.
fn rollback_refusal(path: &str, name: &str, error: FileError) -> AdminError {
    AdminError::Invalid(match error {
        FileError::State(Error::NewerSnapshots) => format!(
            "there are newer snapshots of {path}, which would show what never was: remove them first (heorot snapshot list \
             {path})"
        ),
        FileError::State(Error::HoldsVolumes) => {
            format!(
                "other volumes are in {path}, or were when the snapshot was made: a rollback would lose their place"
            )
        }
        FileError::State(Error::FilesOpen) => format!(
            "clients have files of {path} open; with --force these lose their locks, and those that were made since the \
             snapshot get errors (ESTALE)"
        ),
        other => return refusal(path, name.as_bytes(), other),
    })
}

/// Message for a command that was refused.
fn refusal(path: &str, name: &[u8], error: FileError) -> AdminError {
    let name = String::from_utf8_lossy(name);
    let why = match error {
        FileError::Exists => format!("{path}@{name} exists"),
        FileError::NoEntry => format!("there is no snapshot {path}@{name} (heorot snapshot list {path})"),
        FileError::Stale => format!("{path} was removed meanwhile"),
        FileError::State(Error::FilesOpen) => {
            format!(
                "clients have files of {path}@{name} open; with --force they get errors (ESTALE) from now on"
            )
        }
        FileError::State(Error::Promotes) => {
            format!("{path} is being promoted: it has snapshots when that is done (heorot volume list)")
        }
        FileError::State(Error::TooManySnapshots) => {
            format!("{path} has {SNAPSHOTS_OF_VOLUME_MAX} snapshots, the maximum")
        }
        other => return server_failed(other),
    };
    AdminError::Invalid(why)
}
