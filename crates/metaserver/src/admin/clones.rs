//! Clones: requests of administrators.

use cluster::AdminError;
use namespace::{CLONES_DEEP_MAX, Command, Error, Reply, Snapshot, Stage, VolumeId, read};
use store::View;

use crate::Metaserver;
use crate::admin::OriginReport;
use crate::admin::snapshots::volume_at;
use crate::admin::stripe::server_failed;
use crate::admin::volumes::{self, Place, place};
use crate::errors::FileError;

impl Metaserver {
    /// Makes a volume at `path` that begins as the snapshot `name` of the volume `of`, and returns a message.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn volume_clone(&self, of: &str, name: &str, path: &str) -> Result<String, AdminError> {
        self.cluster.agree().await?;
        let (of, snapshot, Place { dir, name: entry, path }) = {
            let view = self.machine.view().map_err(server_failed)?;
            let (volume, of) = volume_at(&*view, of)?;
            let named = read::snapshots(&*view, volume)?.into_iter().find(|one| one.name == name.as_bytes());
            let snapshot = named.ok_or_else(|| {
                AdminError::Invalid(format!("there is no snapshot {of}@{name} (heorot snapshot list {of})"))
            })?;
            (of, snapshot, place(&*view, path)?)
        };
        let make = Command::MakeClone { snapshot: snapshot.id, dir, name: entry };
        match self.state.propose(None, make).await.map_err(|error| refusal(&of, name, &path, error))? {
            Reply::Created { inode, .. } => {
                let volume = inode.id.volume().0;
                tracing::info!(path, volume, of, name, "a clone is made");
                Ok(format!("{path} is a clone of {of}@{name}"))
            }
            other => Err(AdminError::Failed(format!("{other:?}"))),
        }
    }

    /// Begins to end what a clone shares with its snapshot, and returns a message.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn volume_promote(&self, path: &str) -> Result<String, AdminError> {
        self.cluster.agree().await?;
        let (volume, path, origin) = {
            let view = self.machine.view().map_err(server_failed)?;
            let (volume, path) = volume_at(&*view, path)?;
            (volume, path, self.origin_report(&*view, volume)?)
        };
        let promoted = self.state.propose(None, Command::Promote { volume }).await;
        promoted.map_err(|error| match error {
            FileError::State(Error::NotClone) => {
                AdminError::Invalid(format!("{path} is no clone, or was promoted before: it shares nothing"))
            }
            FileError::State(Error::HoldsSnapshots) => AdminError::Invalid(format!(
                "there are snapshots of {path}, which show what it shares: remove them first (heorot snapshot list {path})"
            )),
            other => volumes::refusal(&path, other),
        })?;
        let of = origin.map_or_else(String::new, |origin| origin.snapshot);
        tracing::info!(path, of, "a clone is promoted");
        Ok(format!(
            "{path} gets copies of all that it shares with {of} (heorot volume list shows {of} until that is done)"
        ))
    }

    /// Where a clone has its data from; none of a volume that is none.
    pub(super) fn origin_report(
        &self,
        view: &dyn View,
        id: VolumeId,
    ) -> Result<Option<OriginReport>, AdminError> {
        let Some(origin) = read::origin(view, id)? else { return Ok(None) };
        let Some(Snapshot { volume, name, .. }) = read::snapshot(view, origin.snapshot)? else {
            return Ok(None);
        };
        let of = self.admission.path_of_directory(view, volume.root()).map_err(server_failed)?;
        let snapshot = format!("{of}@{}", String::from_utf8_lossy(&name));
        Ok(Some(OriginReport { snapshot, is_ending: origin.stage == Stage::Promotes }))
    }

    /// Message for the removal of a snapshot that has clones.
    pub(super) fn held_by_clones(
        &self,
        volume: VolumeId,
        path: &str,
        name: &str,
    ) -> Result<AdminError, AdminError> {
        let view = self.machine.view().map_err(server_failed)?;
        let all = read::snapshots(&*view, volume)?;
        let mut clones = Vec::new();
        if let Some(snapshot) = all.into_iter().find(|one| one.name == name.as_bytes()) {
            for id in read::clones(&*view, snapshot.id)? {
                clones.push(self.admission.path_of_directory(&*view, id.root()).map_err(server_failed)?);
            }
        }
        Ok(AdminError::Invalid(format!(
            "{path}@{name} has clones: {}; remove them first, or end what they share with it (heorot volume promote)",
            clones.join(", ")
        )))
    }
}

/// Message for a clone that was refused.
fn refusal(of: &str, name: &str, path: &str, error: FileError) -> AdminError {
    AdminError::Invalid(match error {
        FileError::NoEntry => format!("{of}@{name} was removed meanwhile"),
        FileError::State(Error::HoldsVolumes) => format!(
            "volumes were in {of} when {of}@{name} was made: a clone would not have them, and their directories would not \
             be empty"
        ),
        FileError::State(Error::ClonesTooDeep) => format!(
            "{of} is a clone of a clone, {CLONES_DEEP_MAX} times: end what it shares (heorot volume promote {of}), and make \
             a snapshot again"
        ),
        FileError::Delay => format!("{of} is being rolled back; try again when that is done"),
        other => return volumes::refusal(path, other),
    })
}
