//! Files that nodes load before they have a kernel: kernel and initramfs of a root, and what firmware loads.
//!
//! Symbolic links are followed inside the volume alone: `..` ends at its root, and `/` is its root.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use namespace::{Assigned, BootGroup, BootRoot, Inode, InodeId, Kind, VolumeId, read};
use store::View;

use super::cache::PIECE_BYTES;
use super::paths::{ImageName, LOADERS, clone_of_group};
use crate::Metaserver;
use crate::admin::walk;
use crate::errors::FileError;

/// Symbolic links that one path may have: as in Linux.
const LINKS_MAX: usize = 40;
/// Names of /boot that are looked at.
const NAMES_MAX: usize = 4096;
/// Files for firmware that are known by name.
const LOADERS_MAX: usize = 16;
/// Number of an inode, and of its last change.
pub(super) type Version = (u64, u64);
/// Directories from the root, and a name in the last of them.
type Place = (Vec<InodeId>, Vec<u8>);

/// File of a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootPart {
    /// The kernel.
    Kernel,
    /// The initramfs of that kernel.
    Initramfs,
}

/// A file that is being loaded.
#[derive(Clone)]
pub struct BootFile {
    server: Arc<Metaserver>,
    inode: Inode,
}

impl BootFile {
    /// Size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.inode.size
    }

    /// Value that differs after any change of any file.
    #[must_use]
    pub fn version(&self) -> Version {
        (self.inode.id.0, self.inode.change)
    }

    /// Reads from `offset`: at least one byte unless that is the end, at most a quarter of a mebibyte.
    ///
    /// # Errors
    /// The file error, as text.
    pub async fn read(&self, offset: u64) -> std::io::Result<Bytes> {
        let failed = |error: FileError| std::io::Error::other(format!("read a boot file: {error:?}"));
        let begin = offset - offset % u64::from(PIECE_BYTES);
        let read = async {
            let (payload, _) = self.server.data.read_data(&self.inode, begin, PIECE_BYTES).await?;
            Ok(payload.to_bytes())
        };
        let piece = self.server.boot_cache.piece(self.version(), begin, read).await.map_err(failed)?;
        // A piece ends early at the end of the file alone: what is not there is the end.
        let from = usize::try_from(offset - begin).unwrap_or(usize::MAX).min(piece.len());
        Ok(piece.slice(from..))
    }
}

impl Metaserver {
    /// A file of the root with this id; none: no node boots from it, or it has no such file.
    ///
    /// # Errors
    /// The errors of the store and of the data servers.
    pub async fn boot_file(
        self: &Arc<Self>,
        root: u32,
        part: BootPart,
    ) -> Result<Option<BootFile>, FileError> {
        self.machine.read_barrier().await?;
        let found = {
            let view = self.machine.view()?;
            if !self.boots_from(&*view, VolumeId(root))? {
                return Ok(None);
            }
            part_of(&*view, VolumeId(root).root(), part)?
        };
        self.boot_file_of(found).await
    }

    /// A file for firmware.
    ///
    /// # Errors
    /// The errors of the store and of the data servers.
    pub async fn boot_loader(self: &Arc<Self>, name: &str) -> Result<Option<BootFile>, FileError> {
        self.machine.read_barrier().await?;
        let found = {
            let view = self.machine.view()?;
            match walk(&*view, LOADERS) {
                Ok(way) => {
                    let dir = way.last().map_or(InodeId::ROOT, |(inode, ..)| *inode);
                    followed(&*view, &[dir], name.as_bytes())?
                }
                Err(_) => None,
            }
        };
        self.boot_file_of(found).await
    }

    /// The files for firmware, by name.
    ///
    /// # Errors
    /// The errors of the store and of the data servers.
    pub async fn boot_loaders(self: &Arc<Self>) -> Result<Vec<(String, BootFile)>, FileError> {
        let mut names = Vec::new();
        {
            let view = self.machine.view()?;
            if let Ok(way) = walk(&*view, LOADERS) {
                let dir = way.last().map_or(InodeId::ROOT, |(inode, ..)| *inode);
                read::list(&*view, dir, 0, |entry| {
                    names.extend(String::from_utf8(entry.name));
                    if names.len() < LOADERS_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                })?;
            }
        }
        let mut files = Vec::new();
        for name in names {
            if let Some(file) = self.boot_loader(&name).await? {
                files.push((name, file));
            }
        }
        Ok(files)
    }

    async fn boot_file_of(self: &Arc<Self>, found: Option<Inode>) -> Result<Option<BootFile>, FileError> {
        let Some(inode) = found.filter(|inode| matches!(inode.kind, Kind::File(_))) else { return Ok(None) };
        let inode = self.not_written_elsewhere(None, inode).await?;
        let inode = self.data.true_inode(inode).await?;
        Ok(Some(BootFile { server: Arc::clone(self), inode }))
    }

    /// Whether a group or a node has this root, now or before its last change.
    fn boots_from(&self, view: &dyn View, root: VolumeId) -> Result<bool, FileError> {
        let groups: BTreeMap<String, BootGroup> =
            read::boot_groups(view)?.into_iter().map(|group| (group.name.clone(), group)).collect();
        let mut booted: BTreeSet<(&str, VolumeId)> = BTreeSet::new();
        for group in groups.values() {
            let Assigned { image, previous } = group.assigned;
            booted.extend(image.into_iter().chain(previous).map(|image| (group.name.as_str(), image)));
        }
        for node in read::boot_nodes(view)? {
            if let Some((name, _)) = groups.get_key_value(&node.group) {
                let Assigned { image, previous } = node.assigned;
                booted.extend(image.into_iter().chain(previous).map(|image| (name.as_str(), image)));
            }
        }
        for (group, image) in booted {
            if self.is_root(view, &groups[group], image, root)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_root(
        &self,
        view: &dyn View,
        group: &BootGroup,
        image: VolumeId,
        root: VolumeId,
    ) -> Result<bool, FileError> {
        if group.root != BootRoot::Group {
            return Ok(image == root);
        }
        let Some(image) = self.image_name(view, image)? else { return Ok(false) };
        Ok(self.boot_root(view, group, &image)? == Some(root))
    }

    /// The volume that is the root of a group's nodes with this image; none: it is not there.
    pub(super) fn boot_root(
        &self,
        view: &dyn View,
        group: &BootGroup,
        image: &ImageName,
    ) -> Result<Option<VolumeId>, FileError> {
        if group.root == BootRoot::Group {
            let found = walk(view, &clone_of_group(&group.name, image)).ok();
            let root = found.and_then(|way| way.last().map(|(inode, ..)| *inode));
            return Ok(root.filter(|root| root.is_root()).map(InodeId::volume));
        }
        Ok(image.find(view).ok().map(|snapshot| snapshot.id))
    }
}

/// Finds a file of the tree below `root`: where Debian puts it, and where others do.
pub(super) fn part_of(view: &dyn View, root: InodeId, part: BootPart) -> Result<Option<Inode>, FileError> {
    let Some((way, name)) = kernel(view, root)? else { return Ok(None) };
    if part == BootPart::Kernel {
        return followed(view, &way, &name);
    }
    let version = name.strip_prefix(b"vmlinuz-").map(<[u8]>::to_vec).unwrap_or_default();
    let names = match version.is_empty() {
        true => vec![b"initrd.img".to_vec(), b"initramfs.img".to_vec(), b"initrd".to_vec()],
        false => vec![
            [b"initrd.img-", &version[..]].concat(),
            [b"initramfs-", &version[..], b".img"].concat(),
            [b"initrd-", &version[..]].concat(),
        ],
    };
    for name in names {
        if let Some(found) = followed(view, &way, &name)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Directories from the root, and name, of the kernel: what /vmlinuz or /boot/vmlinuz points at, or else the newest in /boot.
fn kernel(view: &dyn View, root: InodeId) -> Result<Option<Place>, FileError> {
    for path in [&b"vmlinuz"[..], b"boot/vmlinuz"] {
        if let Some((place, inode)) = resolved(view, &[root], path)?
            && matches!(inode.kind, Kind::File(_))
        {
            return Ok(Some(place));
        }
    }
    let Some(boot) = followed(view, &[root], b"boot")? else { return Ok(None) };
    let mut newest: Option<Vec<u8>> = None;
    let mut names = 0;
    read::list(view, boot.id, 0, |entry| {
        names += 1;
        let is_newer = newest.as_ref().is_none_or(|newest| by_version(newest) < by_version(&entry.name));
        if entry.name.starts_with(b"vmlinuz-") && is_newer {
            newest = Some(entry.name);
        }
        if names < NAMES_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(newest.map(|name| (vec![root, boot.id], name)))
}

/// Order of names with numbers in them: 6.10 is after 6.9.
fn by_version(name: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let parts = name.split(|byte| !byte.is_ascii_alphanumeric());
    parts
        .map(|part| {
            let digits = part.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let number = part[..digits].iter().fold(0_u64, |number, digit| {
                number.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
            });
            (number, part[digits..].to_vec())
        })
        .collect()
}

/// Inode at `path` from the last directory of `way`, inside the tree of its first.
fn followed(view: &dyn View, way: &[InodeId], path: &[u8]) -> Result<Option<Inode>, FileError> {
    Ok(resolved(view, way, path)?.map(|(_, inode)| inode))
}

/// Directories, name and inode at `path` from the last directory of `way`, after all symbolic links; none: there is nothing,
/// or it is in another volume.
fn resolved(view: &dyn View, way: &[InodeId], path: &[u8]) -> Result<Option<(Place, Inode)>, FileError> {
    let (Some(root), mut way) = (way.first().copied(), way.to_vec()) else { return Ok(None) };
    let names =
        |path: &[u8]| -> Vec<Vec<u8>> { path.split(|byte| *byte == b'/').map(<[u8]>::to_vec).collect() };
    let mut left: VecDeque<Vec<u8>> = names(path).into();
    let (mut links, mut last) = (0, None);
    while let Some(name) = left.pop_front() {
        match &name[..] {
            b"" | b"." => continue,
            b".." => {
                way.truncate(way.len().saturating_sub(1).max(1));
                last = None;
                continue;
            }
            _ => {}
        }
        let here = way.last().copied().unwrap_or(root);
        let Some(id) = read::lookup(view, here, &name)? else { return Ok(None) };
        let Some(inode) = read::inode(view, id)? else { return Ok(None) };
        if id.volume() != root.volume() {
            return Ok(None);
        }
        match &inode.kind {
            Kind::Symlink(target) => {
                links += 1;
                if links > LINKS_MAX {
                    return Ok(None);
                }
                if target.starts_with(b"/") {
                    way.truncate(1);
                }
                for name in names(target).into_iter().rev() {
                    left.push_front(name);
                }
            }
            Kind::Directory(_) => {
                last = Some(((way.clone(), name), inode));
                way.push(id);
            }
            _ if left.iter().all(|name| name.is_empty()) => return Ok(Some(((way, name), inode))),
            _ => return Ok(None),
        }
    }
    Ok(last)
}

#[cfg(test)]
mod tests {
    use namespace::{Command, Create, Exists, NewAttributes, NewNode, Proposal, Reply, Stamp, apply};
    use store::{Durability, MemoryStore, Store};

    use super::*;

    /// A store with these paths: a directory ends in `/`, a symbolic link has ` -> TARGET`.
    fn tree(paths: &[&str]) -> MemoryStore {
        let memory = MemoryStore::new();
        let mut fill = |edit: &mut dyn store::Edit| {
            namespace::format(edit, &Stamp::default(), [7; 16])?;
            let mut dirs = std::collections::BTreeMap::from([(String::new(), InodeId::ROOT)]);
            for path in paths {
                let (path, target) = path.split_once(" -> ").unwrap_or((path, ""));
                let (above, name) = path.trim_end_matches('/').rsplit_once('/').unwrap_or(("", path));
                let node = match (path.ends_with('/'), target) {
                    (true, _) => NewNode::Directory,
                    (false, "") => NewNode::File(namespace::FileLayout {
                        device: namespace::DeviceId(1),
                        first: 0,
                        unit: namespace::StripeUnit::DEFAULT,
                        columns: 1,
                    }),
                    (false, target) => NewNode::Symlink(target.into()),
                };
                let attributes =
                    NewAttributes { mode: 0o755, uid: 0, gid: 0, accessed: None, modified: None };
                let name = name.trim_end_matches('/');
                let create =
                    Create { dir: dirs[above], name: name.into(), node, attributes, exists: Exists::Refuse };
                let outcome = apply(edit, &Proposal::new(Stamp::default(), None, Command::Create(create)))?;
                let Reply::Created { inode, .. } = outcome else { panic!("{path}: {outcome:?}") };
                dirs.insert(path.trim_end_matches('/').into(), inode.id);
            }
            Ok(())
        };
        memory.batch(Durability::Immediate, &mut fill).unwrap();
        memory
    }

    fn found(paths: &[&str]) -> [Option<String>; 2] {
        let memory = tree(paths);
        let view = memory.snapshot().unwrap();
        let name = |inode: Inode| {
            let boot = read::lookup(&*view, InodeId::ROOT, b"boot").unwrap().unwrap_or(InodeId::ROOT);
            let name = [boot, InodeId::ROOT]
                .into_iter()
                .find_map(|dir| read::name_of(&*view, dir, inode.id).unwrap());
            String::from_utf8(name.expect("it has a name there")).unwrap()
        };
        [BootPart::Kernel, BootPart::Initramfs]
            .map(|part| part_of(&*view, InodeId::ROOT, part).unwrap().map(name))
    }

    #[test]
    fn kernel_and_initramfs_are_found_where_distributions_put_them() {
        let said = |kernel: &str, initramfs: &str| [Some(kernel.to_owned()), Some(initramfs.to_owned())];
        let debian =
            ["boot/", "boot/vmlinuz-6.9", "boot/initrd.img-6.9", "boot/vmlinuz-6.10", "boot/initrd.img-6.10"];
        assert_eq!(found(&debian), said("vmlinuz-6.10", "initrd.img-6.10"), "the newest");
        let linked = [&debian[..], &["vmlinuz -> boot/vmlinuz-6.9"]].concat();
        assert_eq!(found(&linked), said("vmlinuz-6.9", "initrd.img-6.9"), "what /vmlinuz says");
        let absolute = [&debian[..], &["vmlinuz -> /../../boot/vmlinuz-6.9"]].concat();
        assert_eq!(found(&absolute), said("vmlinuz-6.9", "initrd.img-6.9"), "inside the image");
        let fedora = ["boot/", "boot/vmlinuz-6.9.fc40", "boot/initramfs-6.9.fc40.img"];
        assert_eq!(found(&fedora), said("vmlinuz-6.9.fc40", "initramfs-6.9.fc40.img"));
        assert_eq!(found(&["vmlinuz", "initrd.img"]), said("vmlinuz", "initrd.img"));
    }

    #[test]
    fn an_image_without_a_kernel_and_links_that_lead_nowhere_have_none() {
        assert_eq!(found(&["boot/", "boot/config"]), [None, None]);
        assert_eq!(found(&[]), [None, None]);
        assert_eq!(found(&["vmlinuz -> vmlinuz"]), [None, None], "a circle");
        assert_eq!(found(&["vmlinuz -> /etc"]), [None, None]);
        assert_eq!(found(&["boot/", "boot/vmlinuz-1"])[1], None, "a kernel alone");
    }
}
