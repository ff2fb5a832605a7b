//! Import of an image: the entries of a tar become the tree of its volume, and that a snapshot.
//!
//! ```text
//! entry ─▶ is there, with the same size and time ───────────────▶ kept: versions of an image share what is alike
//!            └─ else removed, made ─▶ data ─▶ mode and times
//! end ───▶ what no entry named is removed ─▶ times of directories ─▶ is there a kernel? ─▶ snapshot
//! ```
//!
//! An import that ends early leaves the volume between two versions, and no snapshot; the next one goes on from there.

use std::sync::Arc;
use std::time::Duration;

use cluster::AdminError;
use namespace::{VolumeId, read};
use tokio::sync::mpsc;

use super::claim::Claim;
use super::entry::Piece;
use super::files::{BootPart, part_of};
use super::importer::Import;
use super::paths::{IMAGES, ImageName, LOADERS};
use crate::Metaserver;
use crate::admin::{SnapshotMade, server_failed, volume_at, walk};

/// Time for which clients are asked to end their writes to the image.
const SNAPSHOT_TIME_MAX: Duration = Duration::from_secs(120);

/// How an image is imported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// Also files that are there with the same size and time are written.
    pub whole: bool,
    /// Also into a volume with files that is none of the images.
    pub force: bool,
}

impl Metaserver {
    /// Whether an image can be imported under this name: before its first byte is sent.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn boot_import_check(&self, image: &str, how: ImportOptions) -> Result<(), AdminError> {
        self.cluster.agree().await?;
        self.can_become(&ImageName::parse(image)?, how)
    }

    fn can_become(&self, image: &ImageName, how: ImportOptions) -> Result<(), AdminError> {
        let view = self.machine.view().map_err(server_failed)?;
        if walk(&*view, &image.volume).is_err() {
            return Ok(());
        }
        let (volume, path) = volume_at(&*view, &image.volume)?;
        if read::snapshots(&*view, volume)?.iter().any(|one| one.name == image.version.as_bytes()) {
            return Err(AdminError::Invalid(format!(
                "{path}@{} exists: give another version",
                image.version
            )));
        }
        let files = read::volume(&*view, volume)?.map_or(0, |volume| volume.usage.inodes.saturating_sub(1));
        if files > 0 && !how.force && !path.starts_with(IMAGES) {
            return Err(AdminError::Invalid(format!(
                "{path} has {files} files and directories, and its tree becomes the image's: with --force those that are not \
                 in the image are removed"
            )));
        }
        Ok(())
    }

    /// Imports an image, and returns a message. It ends in order also when its caller goes away.
    ///
    /// # Errors
    /// [`AdminError`]; the volume has then some of the entries, and no new snapshot.
    pub async fn boot_import(
        self: &Arc<Self>,
        image: &str,
        how: ImportOptions,
        pieces: mpsc::Receiver<Piece>,
    ) -> Result<String, AdminError> {
        self.boot_import_check(image, how).await?;
        let image = ImageName::parse(image)?;
        let server = Arc::clone(self);
        let import = tokio::spawn(async move {
            let volume = Box::pin(server.image_volume(&image)).await?;
            let claim = Box::pin(Claim::of(&server, volume, &image.volume)).await?;
            // The import before may have been of this version.
            let done = match server.can_become(&image, ImportOptions { force: true, ..how }) {
                Ok(()) => Box::pin(server.import_claimed(&image, how, volume, &claim, pieces)).await,
                Err(error) => Err(error),
            };
            claim.end().await;
            done
        });
        import.await.map_err(|error| AdminError::Failed(error.to_string()))?
    }

    /// Imports while the claim is good.
    async fn import_claimed(
        self: &Arc<Self>,
        image: &ImageName,
        how: ImportOptions,
        volume: VolumeId,
        claim: &Claim,
        pieces: mpsc::Receiver<Piece>,
    ) -> Result<String, AdminError> {
        let mut import = Import::new(self, pieces, volume.root(), !how.whole);
        let done = tokio::select! {
            done = self.import_into(image, volume, &mut import) => done,
            () = claim.expired() => Err(AdminError::Invalid(
                "the metaserver has lost its claim, since it had no majority for too long, or the claim in /boot/.imports was \
                 removed: another import may have begun. No version is made"
                    .into(),
            )),
        };
        if done.is_err() {
            // Changes that are under way come before those of the next import.
            tokio::select! {
                () = import.all_ended() => {}
                () = claim.expired() => {}
            }
        }
        done
    }

    async fn import_into(
        &self,
        image: &ImageName,
        volume: VolumeId,
        import: &mut Import,
    ) -> Result<String, AdminError> {
        let files = Box::pin(import.run()).await?;
        if files == 0 {
            return Err(AdminError::Invalid("nothing came: neither files nor directories".into()));
        }
        import.remove_others().await?;
        import.set_attributes().await?;
        let has = |part| {
            let view = self.machine.view().map_err(server_failed)?;
            Ok::<_, AdminError>(part_of(&*view, volume.root(), part).map_err(server_failed)?.is_some())
        };
        if !has(BootPart::Kernel)? {
            return Err(AdminError::Invalid(format!(
                "there is no kernel in {}: neither /vmlinuz nor /boot/vmlinuz-VERSION; no version is made of it, and the next \
                 import goes on from there",
                image.volume
            )));
        }
        if !has(BootPart::Initramfs)? {
            return Err(AdminError::Invalid(format!(
                "there is no initramfs beside the kernel in {}: /boot/initrd.img-VERSION is made by update-initramfs, with \
                 Heorot's hook and script in it (docs/diskless.md); no version is made of it",
                image.volume
            )));
        }
        Box::pin(self.snapshot_of_import(volume, image)).await?;
        tracing::info!(image = image.shown(), files, "an image is imported");
        Ok(format!("{} is imported: {files} files and directories", image.shown()))
    }

    /// Imports files for machines' firmware, and returns a message. Those that are there already stay.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn boot_import_loaders(
        self: &Arc<Self>,
        pieces: mpsc::Receiver<Piece>,
    ) -> Result<String, AdminError> {
        self.cluster.agree().await?;
        let root = self.make_boot_directory(LOADERS).await?;
        let mut import = Import::new(self, pieces, root, false);
        let files = Box::pin(import.run()).await?;
        import.set_attributes().await?;
        Ok(format!("{files} files are in {LOADERS}"))
    }

    /// The volume of an image whose version is new; made if it is not there.
    async fn image_volume(&self, image: &ImageName) -> Result<VolumeId, AdminError> {
        if image.volume.starts_with(IMAGES) {
            self.make_boot_directory(IMAGES).await?;
        }
        let is_there = || {
            let view = self.machine.view().map_err(server_failed)?;
            Ok::<_, AdminError>(walk(&*view, &image.volume).is_ok())
        };
        // Another import may make it at the same time.
        if !is_there()?
            && let Err(error) = self.volume_create(&image.volume, None).await
            && !is_there()?
        {
            return Err(error);
        }
        let view = self.machine.view().map_err(server_failed)?;
        Ok(volume_at(&*view, &image.volume)?.0)
    }

    async fn snapshot_of_import(&self, volume: VolumeId, image: &ImageName) -> Result<(), AdminError> {
        let until = tokio::time::Instant::now() + SNAPSHOT_TIME_MAX;
        loop {
            match self.snapshot_of(volume, &image.volume, image.version.as_bytes()).await? {
                SnapshotMade::Made(_) => return Ok(()),
                SnapshotMade::NotYet(why) if tokio::time::Instant::now() >= until => {
                    return Err(AdminError::Invalid(why));
                }
                SnapshotMade::NotYet(_) => {}
            }
        }
    }
}
