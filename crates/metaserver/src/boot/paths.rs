//! Places of what nodes boot from, in the name space.

use cluster::AdminError;
use namespace::{BootGroup, BootNode, BootRoot, Snapshot, VolumeId, read};
use store::View;

use crate::Metaserver;
use crate::admin::volume_at;
use crate::errors::FileError;

/// Directory of all that nodes boot from.
pub(super) const BOOT: &str = "/boot";
/// Directory of image volumes.
pub(super) const IMAGES: &str = "/boot/images";
/// Directory of the groups' clones.
pub(super) const GROUPS: &str = "/boot/groups";
/// Directory of the nodes' own volumes.
pub(super) const NODES: &str = "/boot/nodes";
/// Directory of what a machine's firmware loads.
pub(super) const LOADERS: &str = "/boot/loaders";

/// Name of an image: the path of a volume, and of a snapshot of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ImageName {
    /// Path of the volume.
    pub volume: String,
    /// Name of the snapshot.
    pub version: String,
}

impl ImageName {
    /// Reads `IMAGE@VERSION`: a name below [`IMAGES`], or the path of another volume.
    pub(super) fn parse(text: &str) -> Result<Self, AdminError> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte);
        let is_name = |name: &str| {
            !name.is_empty() && !name.starts_with('.') && name.len() <= 128 && name.bytes().all(fits)
        };
        let wrong = || {
            AdminError::Invalid(format!(
                "{text:?} names no image: give IMAGE@VERSION, such as debian@12.1, or the path of a volume and a snapshot of \
                 it; names have letters, digits and -_.+"
            ))
        };
        let (image, version) = text.rsplit_once('@').ok_or_else(wrong)?;
        let volume = match image.strip_prefix('/') {
            Some(path) if path.split('/').all(is_name) => image.to_owned(),
            None if is_name(image) => format!("{IMAGES}/{image}"),
            _ => return Err(wrong()),
        };
        if is_name(version) { Ok(Self { volume, version: version.into() }) } else { Err(wrong()) }
    }

    /// As people write it.
    pub(super) fn shown(&self) -> String {
        let name = self.volume.strip_prefix(IMAGES).and_then(|name| name.strip_prefix('/'));
        format!("{}@{}", name.unwrap_or(&self.volume), self.version)
    }

    /// The snapshot.
    pub(super) fn find(&self, view: &dyn View) -> Result<Snapshot, AdminError> {
        let missing = || {
            AdminError::Invalid(format!(
                "there is no image {}; heorot boot image list shows what there is",
                self.shown()
            ))
        };
        let (volume, _) = volume_at(view, &self.volume).map_err(|_| missing())?;
        let all = read::snapshots(view, volume)?;
        all.into_iter().find(|one| one.name == self.version.as_bytes()).ok_or_else(missing)
    }
}

impl Metaserver {
    /// Name of the image that is this snapshot; none: it was removed.
    pub(super) fn image_name(
        &self,
        view: &dyn View,
        snapshot: VolumeId,
    ) -> Result<Option<ImageName>, FileError> {
        let Some(Snapshot { volume, name, .. }) = read::snapshot(view, snapshot)? else { return Ok(None) };
        let volume = self.admission.path_of_directory(view, volume.root())?;
        Ok(Some(ImageName { volume, version: String::from_utf8_lossy(&name).into_owned() }))
    }
}

/// Path of the clone that a group boots from an image.
pub(super) fn clone_of_group(group: &str, image: &ImageName) -> String {
    let shown = image.volume.strip_prefix(IMAGES).unwrap_or(&image.volume);
    format!("{GROUPS}/{group}/{}-{}", shown.trim_matches('/').replace('/', "-"), image.version)
}

/// Path of the volume that a node has of its own.
pub(super) fn own_volume(node: &str) -> String {
    format!("{NODES}/{node}")
}

/// Path of the root that a node mounts.
pub(super) fn root_of(group: &BootGroup, image: &ImageName) -> String {
    match group.root {
        BootRoot::Group => clone_of_group(&group.name, image),
        BootRoot::Shared { .. } | BootRoot::Own { .. } => {
            format!("{}/.snapshot/{}", image.volume.trim_end_matches('/'), image.version)
        }
    }
}

/// The image of a node: its own, or its group's.
pub(super) fn image_of(node: &BootNode, group: &BootGroup) -> Option<VolumeId> {
    node.assigned.image.or(group.assigned.image)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_a_name_or_the_path_of_a_volume_and_a_version() {
        let read = |text: &str| ImageName::parse(text).map(|name| (name.volume.clone(), name.shown()));
        assert_eq!(read("debian@12.1"), Ok(("/boot/images/debian".into(), "debian@12.1".into())));
        assert_eq!(read("/a/b@c"), Ok(("/a/b".into(), "/a/b@c".into())));
        for wrong in
            ["", "debian", "debian@", "@1", "a/b@1", "../a@1", "/a/../b@1", "a@..", "a b@1", "/@1", "a@b/c"]
        {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
