//! Entries of a tar that become a tree, one after the other; files are written side by side, since each waits for the log.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use cluster::AdminError;
use namespace::{Command, InodeId, NewAttributes, NewNode};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use wire::xdr::Payload;

use super::entry::{Entry, EntryKind, Piece, attributes, checked_path};
use crate::Metaserver;
use crate::admin::server_failed;
use crate::errors::FileError;

/// Entries of one image: a thousand times those of a small one.
const ENTRIES_MAX: usize = 8_000_000;
/// Files that are written at a time.
const FILES_AT_ONCE: usize = 64;
/// Largest file that is written beside others; one at a time is larger.
const BESIDE_BYTES_MAX: u64 = 1 << 20;
/// Time for which an import waits for the next piece.
const PIECE_TIME_MAX: Duration = Duration::from_secs(3600);

/// An import under way.
pub(super) struct Import {
    server: Arc<Metaserver>,
    pieces: mpsc::Receiver<Piece>,
    /// Directories by path; that of the root is empty.
    directories: BTreeMap<Vec<u8>, InodeId>,
    /// Attributes of directories, which get them at the end.
    attributes: Vec<(InodeId, NewAttributes)>,
    /// Paths of all entries.
    seen: HashSet<Vec<u8>>,
    writes: JoinSet<Result<(), AdminError>>,
    permits: Arc<Semaphore>,
    /// Whether files stay that are there with the same size and time.
    keeps: bool,
}

impl Import {
    /// An import below `root`. `keeps`: files stay that are there with the same size and time.
    pub(super) fn new(
        server: &Arc<Metaserver>,
        pieces: mpsc::Receiver<Piece>,
        root: InodeId,
        keeps: bool,
    ) -> Self {
        Self {
            server: Arc::clone(server),
            pieces,
            directories: BTreeMap::from([(Vec::new(), root)]),
            attributes: Vec::new(),
            seen: HashSet::new(),
            writes: JoinSet::new(),
            permits: Arc::new(Semaphore::new(FILES_AT_ONCE)),
            keeps,
        }
    }

    async fn next(&mut self) -> Result<Piece, AdminError> {
        match tokio::time::timeout(PIECE_TIME_MAX, self.pieces.recv()).await {
            Ok(Some(piece)) => Ok(piece),
            Ok(None) => Err(AdminError::Invalid("the import ended early".into())),
            Err(_) => Err(AdminError::Invalid(format!("nothing came for {PIECE_TIME_MAX:?}"))),
        }
    }

    /// Takes all entries; returns their number.
    pub(super) async fn run(&mut self) -> Result<usize, AdminError> {
        let mut piece = self.next().await?;
        loop {
            let entry = match piece {
                Piece::End => break,
                Piece::Entry(entry) => entry,
                Piece::Data(_) => return Err(AdminError::Invalid("data of no file".into())),
            };
            let path = checked_path(&entry.path)?;
            let size = if let EntryKind::File(size) = entry.kind { size } else { 0 };
            if path.is_empty() {
                if entry.kind == EntryKind::Directory {
                    self.attributes.push((self.directories[&path], attributes(&entry)));
                }
                piece = self.next().await?;
                continue;
            }
            if self.seen.len() >= ENTRIES_MAX {
                return Err(AdminError::Invalid(format!("more than {ENTRIES_MAX} files and directories")));
            }
            // A path that comes again takes the place of the first: that is written by now.
            if !self.seen.insert(path.clone()) || matches!(entry.kind, EntryKind::HardLink(_)) {
                self.all_written().await?;
                self.forget_directory(&path, &entry.kind);
            }
            piece = match &entry.kind {
                EntryKind::Directory => {
                    self.directory(&path, Some(&entry)).await?;
                    self.next().await?
                }
                EntryKind::HardLink(target) => {
                    let target = checked_path(target)?;
                    self.hard_link(&path, &target).await?;
                    self.next().await?
                }
                _ if size <= BESIDE_BYTES_MAX => self.small(&path, entry, size).await?,
                _ => self.large(&path, entry, size).await?,
            };
        }
        self.all_written().await?;
        Ok(self.seen.len())
    }

    /// A directory that another entry of the same path replaces is none any more.
    fn forget_directory(&mut self, path: &[u8], kind: &EntryKind) {
        if *kind == EntryKind::Directory || !self.directories.contains_key(path) {
            return;
        }
        let below = [path, b"/"].concat();
        let mut gone = BTreeSet::new();
        self.directories.retain(|other, inode| {
            let stays = other != path && !other.starts_with(&below);
            if !stays {
                gone.insert(*inode);
            }
            stays
        });
        self.attributes.retain(|(inode, _)| !gone.contains(inode));
        self.seen.retain(|other| !other.starts_with(&below));
    }

    async fn all_written(&mut self) -> Result<(), AdminError> {
        while let Some(done) = self.writes.join_next().await {
            done.map_err(|error| AdminError::Failed(error.to_string()))??;
        }
        Ok(())
    }

    /// Waits for the files that are being written, whatever comes of them.
    pub(super) async fn all_ended(&mut self) {
        while self.writes.join_next().await.is_some() {}
    }

    /// Directory and name of a path, whose directories are made if no entry has named them.
    async fn place<'a>(&mut self, path: &'a [u8]) -> Result<(InodeId, &'a [u8]), AdminError> {
        let (above, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (&path[..0], path),
        };
        let mut missing: Vec<&[u8]> = Vec::new();
        let mut here = above;
        while !self.directories.contains_key(here) {
            missing.push(here);
            here = &here[..here.iter().rposition(|byte| *byte == b'/').unwrap_or(0)];
        }
        for path in missing.into_iter().rev() {
            self.seen.insert(path.to_vec());
            let at = path.iter().rposition(|byte| *byte == b'/');
            let (above, name) = at.map_or((&path[..0], path), |at| (&path[..at], &path[at + 1..]));
            let above = self.directories[above];
            self.directory_in(above, name, path, None).await?;
        }
        Ok((self.directories[above], name))
    }

    async fn directory(&mut self, path: &[u8], entry: Option<&Entry>) -> Result<(), AdminError> {
        let (above, name) = self.place(path).await?;
        self.directory_in(above, name, path, entry).await
    }

    async fn directory_in(
        &mut self,
        above: InodeId,
        name: &[u8],
        path: &[u8],
        entry: Option<&Entry>,
    ) -> Result<(), AdminError> {
        let failed = |error| refused(path, error);
        let there = self.server.there(above, name).map_err(failed)?;
        let id = match there {
            Some(inode) if inode.id.volume() != above.volume() => {
                return Err(failed(FileError::Permission));
            }
            Some(inode) if inode.directory().is_some() => inode.id,
            there => {
                if there.is_some() {
                    self.server.remove_tree(above, name).await.map_err(failed)?;
                }
                let made = self.server.make_node(above, name, NewNode::Directory, super::tree::DIRECTORY);
                made.await.map_err(failed)?.id
            }
        };
        self.directories.insert(path.to_vec(), id);
        if let Some(entry) = entry {
            self.attributes.push((id, attributes(entry)));
        }
        Ok(())
    }

    /// A file, or another entry, that is written beside others. Returns the piece after its data.
    async fn small(&mut self, path: &[u8], entry: Entry, size: u64) -> Result<Piece, AdminError> {
        let mut data = Payload::default();
        let piece = loop {
            match self.next().await? {
                Piece::Data(more) => data.append(more.into()),
                other => break other,
            }
            if data.len() as u64 > size {
                return Err(too_long(path));
            }
        };
        if data.len() as u64 != size {
            return Err(too_short(path));
        }
        let (dir, name) = self.place(path).await?;
        let (server, path, name) = (Arc::clone(&self.server), path.to_vec(), name.to_vec());
        let keeps = self.keeps;
        let permits = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permits.map_err(|error| AdminError::Failed(error.to_string()))?;
        while let Some(done) = self.writes.try_join_next() {
            done.map_err(|error| AdminError::Failed(error.to_string()))??;
        }
        self.writes.spawn(async move {
            let _permit = permit;
            let written = async {
                if let Some(inode) = server.begin(dir, &name, &entry, keeps).await? {
                    server.fill(&inode, 0, data).await?;
                    server.end_file(&inode, &entry).await?;
                }
                Ok(())
            };
            written.await.map_err(|error| refused(&path, error))
        });
        Ok(piece)
    }

    /// A large file, whose data are written as they come. Returns the piece after them.
    async fn large(&mut self, path: &[u8], entry: Entry, size: u64) -> Result<Piece, AdminError> {
        let (dir, name) = self.place(path).await?;
        let failed = |error| refused(path, error);
        let server = Arc::clone(&self.server);
        let inode = server.begin(dir, name, &entry, self.keeps).await.map_err(failed)?;
        let mut written = 0;
        loop {
            let data = match self.next().await? {
                Piece::Data(data) => data,
                _ if written != size => return Err(too_short(path)),
                other => {
                    if let Some(inode) = &inode {
                        server.end_file(inode, &entry).await.map_err(failed)?;
                    }
                    return Ok(other);
                }
            };
            let len = data.len() as u64;
            if len > size - written {
                return Err(too_long(path));
            }
            if let Some(inode) = &inode {
                server.fill(inode, written, data.into()).await.map_err(failed)?;
            }
            written += len;
        }
    }

    async fn hard_link(&mut self, path: &[u8], target: &[u8]) -> Result<(), AdminError> {
        let (target_dir, target_name) = self.place(target).await?;
        let (dir, name) = self.place(path).await?;
        let failed = |error| refused(path, error);
        let found = self.server.there(target_dir, target_name).map_err(failed)?;
        let inode = found.filter(|_| self.seen.contains(target)).ok_or_else(|| {
            AdminError::Invalid(format!(
                "{} is another name of {}, which did not come before it",
                String::from_utf8_lossy(path),
                String::from_utf8_lossy(target)
            ))
        })?;
        match self.server.there(dir, name).map_err(failed)? {
            Some(there) if there.id == inode.id => return Ok(()),
            Some(_) => self.server.remove_tree(dir, name).await.map_err(failed)?,
            None => {}
        }
        let link = Command::Link { inode: inode.id, dir, name: name.to_vec() };
        self.server.state.propose(None, link).await.map_err(failed)?;
        Ok(())
    }

    /// Removes what is in the directories, and was no entry.
    pub(super) async fn remove_others(&mut self) -> Result<(), AdminError> {
        for (path, dir) in &self.directories {
            let failed = |error| refused(path, error);
            let mut cookie = 0;
            loop {
                let names = self.server.names_of(*dir, cookie).map_err(failed)?;
                let Some((last, _)) = names.last() else { break };
                cookie = *last;
                for (_, name) in names {
                    let full = if path.is_empty() { name.clone() } else { [path, &b"/"[..], &name].concat() };
                    if !self.seen.contains(&full) {
                        let removed = self.server.remove_tree(*dir, &name).await;
                        removed.map_err(|error| refused(&full, error))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Sets the attributes of directories: what was made in them has changed their times.
    pub(super) async fn set_attributes(&mut self) -> Result<(), AdminError> {
        let last: BTreeMap<InodeId, NewAttributes> = self.attributes.drain(..).collect();
        for (inode, attributes) in last {
            let permits = Arc::clone(&self.permits).acquire_owned().await;
            let permit = permits.map_err(|error| AdminError::Failed(error.to_string()))?;
            let server = Arc::clone(&self.server);
            self.writes.spawn(async move {
                let _permit = permit;
                server
                    .set_attributes_of(inode, attributes)
                    .await
                    .map_err(|error| refused(b"a directory", error))
            });
        }
        self.all_written().await
    }
}

fn too_short(path: &[u8]) -> AdminError {
    AdminError::Invalid(format!("{} is shorter than its size", String::from_utf8_lossy(path)))
}

fn too_long(path: &[u8]) -> AdminError {
    AdminError::Invalid(format!("{} is longer than its size", String::from_utf8_lossy(path)))
}

fn refused(path: &[u8], error: FileError) -> AdminError {
    let path = String::from_utf8_lossy(path);
    match error {
        FileError::NoSpace => AdminError::Invalid(format!("{path}: no space is left")),
        FileError::Quota => {
            AdminError::Invalid(format!("{path}: above the limit of the volume (heorot quota report)"))
        }
        FileError::Permission => AdminError::Invalid(format!(
            "{path} is the root of another volume, which an import does not touch"
        )),
        FileError::Stale | FileError::NoEntry => AdminError::Invalid(format!(
            "{path}, or its directory, was removed by another client, or its volume was (heorot volume list). No version is \
             made; import it again"
        )),
        other => server_failed(other),
    }
}
