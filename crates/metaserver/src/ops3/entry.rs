//! A name in a directory, looked up with the caller's rights.

use namespace::{Inode, read};
use wire::nfs3::DirOpArgs;

use super::directory_in_export;
use super::wcc::Wcc;
use crate::errors::FileError;
use crate::user::{Permission, User};
use crate::{Metaserver, names};

/// A name in a directory, and its inode.
pub(crate) struct Entry {
    pub dir: Inode,
    pub name: Vec<u8>,
    pub found: Option<Inode>,
}

impl Entry {
    /// Inode of the name.
    pub(crate) fn there(&self) -> Result<&Inode, FileError> {
        self.found.as_ref().ok_or(FileError::NoEntry)
    }
}

/// Looks up an entry for an operation that changes it. `BadName` for `.` and `..`.
pub(crate) fn find(
    server: &Metaserver,
    user: &User,
    at: &DirOpArgs,
    wcc: &mut Wcc,
) -> Result<Entry, FileError> {
    let view = server.machine.view()?;
    wcc.before(&server.machine.inode_of(&*view, &at.dir)?);
    let dir = directory_in_export(server, &*view, user, &at.dir)?;
    user.check(&dir, Permission::EXECUTE)?;
    let name = name(&at.name)?;
    let found = read::lookup(&*view, dir.id, &name)?;
    let found = found.map(|id| server.machine.inode(&*view, id)).transpose()?;
    Ok(Entry { dir, name, found })
}

/// Returns the checked name, with errors of version 3: it has no error for bad characters.
pub(crate) fn name(name: &[u8]) -> Result<Vec<u8>, FileError> {
    names::checked(name).map_err(|status| match status {
        FileError::BadCharacter => FileError::Invalid,
        FileError::Invalid => FileError::Access, // empty (RFC 1813, section 3.2)
        other => other,
    })
}
