//! Entries of an image, and how one becomes an inode.

use std::time::Duration;

use bytes::Bytes;
use cluster::AdminError;
use namespace::{Command, Inode, InodeId, Kind, NewAttributes, NewNode, SetAttributes, Time, read};
use wire::xdr::Payload;

use crate::errors::FileError;
use crate::files::{Request, write};
use crate::user::User;
use crate::{Metaserver, names};

/// Interval of the tries of a change that is put off.
const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Tries of such a change: a minute.
const TRIES_MAX: u32 = 600;

/// Entry of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Path inside the image.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: EntryKind,
    /// Permission bits, with set-id bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Time of the last change of its data.
    pub modified: Time,
}

/// Kind of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file of this size; its data follow.
    File(u64),
    /// A directory.
    Directory,
    /// A symbolic link to this.
    Symlink(Vec<u8>),
    /// Another name of the file at this path.
    HardLink(Vec<u8>),
    /// A named pipe.
    Fifo,
    /// Major and minor number.
    CharacterDevice(u32, u32),
    /// Major and minor number.
    BlockDevice(u32, u32),
}

/// Piece of what is imported.
#[derive(Debug)]
pub enum Piece {
    /// The next entry.
    Entry(Entry),
    /// More data of the last one; none is empty.
    Data(Bytes),
    /// All have come. Without it the import ended early.
    End,
}

impl Metaserver {
    /// The inode of a name.
    pub(super) fn there(&self, dir: InodeId, name: &[u8]) -> Result<Option<Inode>, FileError> {
        let view = self.machine.view()?;
        Ok(match read::lookup(&*view, dir, name)? {
            Some(id) => read::inode(&*view, id)?,
            None => None,
        })
    }

    /// Makes the inode of an entry. None: it is there with the same data already; of files that is so only if such are kept.
    pub(super) async fn begin(
        &self,
        dir: InodeId,
        name: &[u8],
        entry: &Entry,
        keeps: bool,
    ) -> Result<Option<Inode>, FileError> {
        if let Some(there) = self.there(dir, name)? {
            if is_same(&there, entry, keeps) {
                let wanted = attributes(entry);
                if (there.mode, there.uid, there.gid) != (wanted.mode, wanted.uid, wanted.gid) {
                    self.set_attributes_of(there.id, wanted).await?;
                }
                return Ok(None);
            }
            self.remove_tree(dir, name).await?;
        }
        let node = match &entry.kind {
            EntryKind::File(_) => self.data.place(dir).await?,
            EntryKind::Symlink(target) => NewNode::Symlink(names::checked_target(target)?),
            EntryKind::Fifo => NewNode::Fifo,
            EntryKind::CharacterDevice(major, minor) => NewNode::CharacterDevice(*major, *minor),
            EntryKind::BlockDevice(major, minor) => NewNode::BlockDevice(*major, *minor),
            EntryKind::Directory | EntryKind::HardLink(_) => return Err(FileError::Fault),
        };
        Ok(Some(self.make_node(dir, name, node, attributes(entry)).await?))
    }

    /// Writes data of a file, durably; waits while data servers are away.
    pub(super) async fn fill(&self, inode: &Inode, offset: u64, data: Payload) -> Result<(), FileError> {
        if data.is_empty() {
            return Ok(());
        }
        let user = User { uid: 0, gid: 0, gids: vec![], read_only: false, export: InodeId::ROOT };
        for _ in 0..TRIES_MAX {
            let now = self.machine.inode(&*self.machine.view()?, inode.id)?;
            let mut request = Request::Write;
            let written = write::write_bytes(self, &mut request, &user, now, offset, data.clone(), true);
            match Box::pin(written).await {
                Err(FileError::Delay | FileError::Away | FileError::NoAnswer | FileError::StaleEpoch) => {
                    tokio::time::sleep(AGAIN_AFTER).await;
                }
                outcome => return outcome.map(drop),
            }
        }
        Err(FileError::Delay)
    }

    /// Sets what the writes of a file's data have changed.
    pub(super) async fn end_file(&self, inode: &Inode, entry: &Entry) -> Result<(), FileError> {
        match entry.kind {
            EntryKind::File(size) if size > 0 => self.set_attributes_of(inode.id, attributes(entry)).await,
            _ => Ok(()),
        }
    }

    /// Sets all of these attributes.
    pub(super) async fn set_attributes_of(
        &self,
        inode: InodeId,
        wanted: NewAttributes,
    ) -> Result<(), FileError> {
        let NewAttributes { mode, uid, gid, accessed, modified } = wanted;
        let (mode, uid, gid) = (Some(mode), Some(uid), Some(gid));
        let set = SetAttributes { mode, uid, gid, accessed, modified, ..SetAttributes::default() };
        self.state.propose(None, Command::SetAttributes { inode, set }).await.map(drop)
    }
}

/// Whether an inode has the data of an entry already: as rsync looks at it, by size and time.
fn is_same(there: &Inode, entry: &Entry, keeps: bool) -> bool {
    match (&there.kind, &entry.kind) {
        (Kind::File(_), EntryKind::File(size)) => {
            // More than one name: the other may be of another file in this version.
            keeps && there.links == 1 && there.size == *size && there.modified == entry.modified
        }
        (Kind::Symlink(target), EntryKind::Symlink(wanted)) => target == wanted,
        (Kind::Fifo, EntryKind::Fifo) => true,
        (Kind::CharacterDevice(a, b), EntryKind::CharacterDevice(c, d))
        | (Kind::BlockDevice(a, b), EntryKind::BlockDevice(c, d)) => (a, b) == (c, d),
        _ => false,
    }
}

/// Attributes of the inode of an entry.
pub(super) fn attributes(entry: &Entry) -> NewAttributes {
    let mode = match entry.kind {
        EntryKind::Symlink(_) => crate::files::make::SYMLINK_MODE,
        _ => entry.mode & 0o7777,
    };
    let modified = Some(entry.modified);
    NewAttributes { mode, uid: entry.uid, gid: entry.gid, accessed: modified, modified }
}

/// The path without `.`, and without a `/` at its begin or end.
pub(super) fn checked_path(path: &[u8]) -> Result<Vec<u8>, AdminError> {
    let parts: Vec<&[u8]> =
        path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".").collect();
    for name in &parts {
        names::checked(name).map_err(|_| {
            AdminError::Invalid(format!(
                "{:?} is not imported: its names are those of files, without .., of up to {} bytes",
                String::from_utf8_lossy(path),
                names::NAME_BYTES_MAX
            ))
        })?;
    }
    Ok(parts.join(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_in_the_image() {
        let read = |path: &str| checked_path(path.as_bytes()).map(|path| String::from_utf8(path).unwrap());
        for (path, expected) in
            [("./", ""), ("/", ""), ("./usr/bin/", "usr/bin"), ("/etc//fstab", "etc/fstab")]
        {
            assert_eq!(read(path).as_deref(), Ok(expected), "{path}");
        }
        for path in ["..", "a/../b", "../etc/passwd", "a\0b", &"n".repeat(300)] {
            assert!(read(path).is_err(), "{path:?}");
        }
    }
}
