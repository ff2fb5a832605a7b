//! Changes of the tree that boots, as root: directories, and the removal of what is not in an image any more.

use std::ops::ControlFlow;

use cluster::AdminError;
use namespace::{
    Command, Create, Exists, Expect, Inode, InodeId, NewAttributes, NewNode, NewVolume, Reply, read,
};

use super::paths::{BOOT, own_volume};
use crate::Metaserver;
use crate::admin::{server_failed, walk};
use crate::errors::FileError;

/// Names that are read at a time.
const NAMES_AT_ONCE: usize = 256;

/// Attributes of a directory that only root changes.
pub(super) const DIRECTORY: NewAttributes =
    NewAttributes { mode: 0o755, uid: 0, gid: 0, accessed: None, modified: None };

impl Metaserver {
    /// Makes an inode.
    pub(super) async fn make_node(
        &self,
        dir: InodeId,
        name: &[u8],
        node: NewNode,
        attributes: NewAttributes,
    ) -> Result<Inode, FileError> {
        let create = Create { dir, name: name.to_vec(), node, attributes, exists: Exists::Refuse };
        match self.state.propose(None, Command::Create(create)).await? {
            Reply::Created { inode, .. } => Ok(inode),
            _ => Err(FileError::Fault),
        }
    }

    /// Makes a directory below [`BOOT`], and those above it, as far as they are not there.
    pub(super) async fn make_boot_directory(&self, path: &str) -> Result<InodeId, AdminError> {
        debug_assert!(path.starts_with(BOOT));
        let mut dir = InodeId::ROOT;
        let mut here = String::new();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            here = format!("{here}/{name}");
            let made = self.make_node(dir, name.as_bytes(), NewNode::Directory, DIRECTORY).await;
            match made {
                Ok(inode) => dir = inode.id,
                Err(FileError::Exists) => {
                    let view = self.machine.view().map_err(server_failed)?;
                    dir = walk(&*view, &here)?.last().map_or(InodeId::ROOT, |(inode, ..)| *inode);
                }
                Err(error) => return Err(server_failed(error)),
            }
        }
        Ok(dir)
    }

    /// Makes the volume of a node's own directories, if it is not there.
    pub(super) async fn make_own_volume(&self, node: &str) -> Result<(), FileError> {
        let path = own_volume(node);
        if walk(&*self.machine.view()?, &path).is_ok() {
            return Ok(());
        }
        let (above, name) = path.rsplit_once('/').ok_or(FileError::Fault)?;
        let dir = self.make_boot_directory(above).await.map_err(|_| FileError::Delay)?;
        let make = NewVolume { dir, name: name.into(), attributes: DIRECTORY, stripe: None };
        match self.state.propose(None, Command::MakeVolume(make)).await {
            Ok(_) | Err(FileError::Exists) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes a name, and all below it.
    ///
    /// # Errors
    /// `Permission` for the root of another volume.
    pub(super) async fn remove_tree(&self, dir: InodeId, name: &[u8]) -> Result<(), FileError> {
        let mut ways = vec![(dir, name.to_vec())];
        while let Some((dir, name)) = ways.last().cloned() {
            let remove = Command::Remove { dir, name: name.clone(), expect: Expect::Anything };
            match self.state.propose(None, remove).await {
                Ok(_) | Err(FileError::NoEntry) => {
                    ways.pop();
                }
                Err(FileError::NotEmpty) => {
                    let found = read::lookup(&*self.machine.view()?, dir, &name)?;
                    let Some(found) = found else { continue };
                    let names = self.names_of(found, 0)?;
                    if names.is_empty() {
                        return Err(FileError::Delay);
                    }
                    ways.extend(names.into_iter().map(|(_, name)| (found, name)));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Some names of a directory after `cookie`, with their cookies.
    pub(super) fn names_of(&self, dir: InodeId, cookie: u64) -> Result<Vec<(u64, Vec<u8>)>, FileError> {
        let mut names = Vec::new();
        read::list(&*self.machine.view()?, dir, cookie, |entry| {
            names.push((entry.cookie, entry.name));
            if names.len() < NAMES_AT_ONCE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(names)
    }
}
