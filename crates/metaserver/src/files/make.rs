//! Creation of inodes: permissions and attributes.

use namespace::{Command, Create, Exists, Inode, NewAttributes, NewNode, Time};

use crate::attributes::setattr::{given_to, new_attributes};
use crate::errors::FileError;
use crate::user::{Permission, User};

/// Mode of a symbolic link: as in Linux, whatever the client's umask.
pub(crate) const SYMLINK_MODE: u32 = 0o777;

/// Attributes that a client asks for; none: chosen by the server.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Asked {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Time of the last access.
    pub accessed: Option<Time>,
    /// Time of the last change of data.
    pub modified: Option<Time>,
}

/// Attributes of a new `node` of `user` in `dir`.
///
/// # Errors
/// `Permission` for an owner or group for which chown(2) or chgrp(2) would be refused.
pub(crate) fn attributes(
    user: &User,
    dir: &Inode,
    node: &NewNode,
    asked: &Asked,
) -> Result<NewAttributes, FileError> {
    let mode = match node {
        NewNode::Symlink(_) => SYMLINK_MODE,
        NewNode::Directory => asked.mode.unwrap_or(0o755),
        _ => asked.mode.unwrap_or(0o644),
    };
    let is_dir = matches!(node, NewNode::Directory);
    let new = new_attributes(user, dir, mode, is_dir, asked.accessed, asked.modified);
    given_to(user, new, asked.uid, asked.gid)
}

/// Returns the command that makes `node` as `name` in `dir`.
///
/// # Errors
/// `Permission` for a device that is not made by root; `ReadOnly` and `Access` for the directory;
/// `Permission` for the owner or group.
pub(crate) fn create(
    user: &User,
    dir: &Inode,
    name: Vec<u8>,
    node: NewNode,
    asked: &Asked,
    exists: Exists,
) -> Result<Command, FileError> {
    check_node(user, &node)?;
    user.check(dir, Permission::WRITE_AND_SEARCH)?;
    let attributes = attributes(user, dir, &node, asked)?;
    Ok(Command::Create(Create { dir: dir.id, name, node, attributes, exists }))
}

/// Checks that `user` may make such a node: only root may make devices.
///
/// # Errors
/// `Permission`.
fn check_node(user: &User, node: &NewNode) -> Result<(), FileError> {
    match node {
        NewNode::CharacterDevice(..) | NewNode::BlockDevice(..) if !user.is_root() => {
            Err(FileError::Permission)
        }
        _ => Ok(()),
    }
}
