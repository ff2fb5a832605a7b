//! Migration of inline data: data of small files are stored with their inode ([`DataPlace::Inline`]). They
//! are read from the store, and are migrated to objects when the file grows or a client asks for a layout.
//!
//! ```text
//! Migrate (the intent) ─► objects made, data to every column, synced ─► Migrated (the outcome): inline data
//! dropped
//! ```
//!
//! The objects of all columns are made here or in LAYOUTGET, before the file counts as striped, and nowhere
//! else. So an object that is missing later is known to be lost, and no late write creates an object of a
//! removed file.
//!
//! The data do not change between the two commands. So a leader that finds a file `Migrating`, after a crash
//! or because a data server was unreachable, begins the copy again from the start, with a higher epoch: late
//! writes of an earlier copy are refused.

use std::time::Duration;

use bytes::Bytes;
use namespace::{
    ChainId, Command, DataPlace, INLINE_BYTES_MAX, Inode, InodeId, Placed, Reply, TargetId, read,
};
use wire::data::seek::What;
use wire::nfs4::Status;
use wire::peer::{self, files::migrate};

use crate::data::Data;
use crate::data::hold::again_until_return;
use crate::errors::FileError;

/// Time limit of a migration by the leader: at most 64 KiB to a data server, which may be busy.
const MIGRATION_TIME_MAX: Duration = Duration::from_secs(10);

/// True if a write that ends at `end` fits in the inline data.
pub(crate) fn fits(inode: &Inode, end: u64) -> bool {
    inode.data() == Some(DataPlace::Inline) && end <= INLINE_BYTES_MAX
}

/// Result of a read of inline data.
pub(crate) enum Small {
    /// `data`, then `hole` zero bytes; `eof`: these are the last bytes of the file.
    Data { data: Bytes, hole: u64, eof: bool },
    /// The data have been migrated since the caller read the inode. Has the current inode.
    Gone(Inode),
}

/// Offset of the next data or hole of a small file, at or after `offset`: the bytes before `written` are one
/// run of data.
pub(crate) fn seek_small(inode: &Inode, offset: u64, what: What) -> Option<u64> {
    match what {
        What::Data => (offset < inode.written).then_some(offset),
        What::Hole => Some(offset.max(inode.written)),
        What::End => Some(inode.written),
    }
}

impl Data {
    /// Migrates a regular file's inline data to objects at the data servers, unless that is done already.
    /// Returns the migrated file; its columns are [`Inode::columns`].
    ///
    /// # Errors
    /// `Delay` while a data server is unreachable, `NoSpace` when one is full; `Invalid` if the inode is not
    /// a regular file.
    pub(crate) async fn migrate_to_objects(&self, inode: InodeId) -> Result<Inode, FileError> {
        again_until_return(|| self.migrate_once(inode)).await
    }

    async fn migrate_once(&self, inode: InodeId) -> Result<Inode, FileError> {
        if !self.machine.replica.leads() {
            return self.migrate_at_leader(inode).await;
        }
        let lock = self.content_locks.of(inode);
        let _held = lock.lock().await;
        loop {
            if let Some(file) = self.try_to_migrate(inode).await? {
                return Ok(file);
            }
        }
    }

    /// One attempt, with an epoch of its own. Another leader may be at work, too: then the attempt that the state machine
    /// knew last counts, and the data servers refuse the writes of the others. None: the file has other targets now, since
    /// these are unfit. Each attempt uses targets not known to be unfit: none is made when there are no others.
    async fn try_to_migrate(&self, inode: InodeId) -> Result<Option<Inode>, FileError> {
        let mut file = self.machine.inode(&*self.machine.view()?, inode)?;
        let made = match file.data().ok_or(FileError::Invalid)? {
            DataPlace::Inline if file.written == 0 => Some(self.make_objects(file.clone()).await?),
            DataPlace::Inline if self.is_on_draining(&file)? && self.relocate(&file).await?.is_some() => {
                return Ok(None);
            }
            DataPlace::Inline | DataPlace::Migrating => None,
            DataPlace::Striped => return Ok(Some(file)),
        };
        file = self.attributes(Command::Migrate { inode, made }).await?;
        if file.data() != Some(DataPlace::Migrating) {
            return Ok(Some(file));
        }
        let Placed { layout, epoch } = file.placed().ok_or(FileError::Invalid)?;
        let data = read::inline_data(&*self.machine.view()?, inode)?;
        let columns = self.file_data_of(&file, layout)?;
        let filled = async {
            self.make_columns(&columns, |_| true).await?;
            self.write_columns(&columns, 0, data.into(), true).await
        };
        match filled.await {
            Ok(()) => self.attributes(Command::Migrated { inode, layout, epoch }).await.map(Some),
            Err(status) => match self.relocate(&file).await?.and_then(|moved| moved.layout()) {
                Some(moved) if moved != layout => Ok(None),
                _ => Err(status),
            },
        }
    }

    /// Makes the missing objects of a file without objects, empty and durable. If its targets are unfit, the
    /// file gets other targets. Returns the placement, for the command to the state machine.
    ///
    /// # Errors
    /// As [`Data::migrate_to_objects`].
    pub(crate) async fn make_objects(&self, mut file: Inode) -> Result<Placed, FileError> {
        loop {
            if self.is_on_draining(&file)?
                && let Some(moved) = self.relocate(&file).await?
            {
                file = moved;
                if file.data() != Some(DataPlace::Inline) {
                    return Err(FileError::Delay); // its objects were made meanwhile, and may have data
                }
            }
            let placed = file.placed().ok_or(FileError::Invalid)?;
            let columns = self.file_data_of(&file, placed.layout)?;
            let Err(status) = self.make_columns(&columns, |_| true).await else { return Ok(placed) };
            let moved = self.relocate(&file).await?;
            file = moved.filter(|moved| moved.layout() != Some(placed.layout)).ok_or(status)?;
            if file.data() != Some(DataPlace::Inline) {
                return Err(FileError::Delay); // its objects were made meanwhile, and may have data
            }
        }
    }

    /// True if an object without copies of a file whose data are with its inode would be made on a target that drains.
    fn is_on_draining(&self, file: &Inode) -> Result<bool, FileError> {
        let Some(layout) = file.layout() else { return Ok(false) };
        let drains = |chain: &ChainId| {
            self.cluster.is_of_target_alone(*chain) && self.cluster.data_servers.is_closed(TargetId(chain.0))
        };
        Ok(self.file_data_of(file, layout)?.chains.iter().any(drains))
    }

    /// Asks the leader to migrate a file's inline data. Returns the migrated file.
    ///
    /// # Errors
    /// The leader's error; `Delay` without an answer.
    pub(super) async fn migrate_at_leader(&self, inode: InodeId) -> Result<Inode, FileError> {
        let question = peer::Call::Migrate(migrate::Args { inode: inode.0 });
        match self.cluster.call_leader(question, MIGRATION_TIME_MAX).await {
            Ok(peer::Reply::Migrate(migrate::Res { status: Status::Ok })) => {}
            Ok(peer::Reply::Migrate(migrate::Res { status })) => return Err(error_of_leader(status)),
            _ => return Err(FileError::Delay),
        }
        self.machine.read_barrier().await?;
        let file = self.machine.inode(&*self.machine.view()?, inode)?;
        if file.columns().is_some() { Ok(file) } else { Err(FileError::Delay) }
    }

    /// [`Data::migrate_to_objects`] for an inode that was just read, and that mostly needs no migration.
    ///
    /// # Errors
    /// As [`Data::migrate_to_objects`].
    pub(crate) async fn in_columns(&self, inode: Inode) -> Result<Inode, FileError> {
        if inode.columns().is_some() { Ok(inode) } else { self.migrate_to_objects(inode.id).await }
    }

    pub(super) async fn attributes(&self, command: Command) -> Result<Inode, FileError> {
        match self.state.propose(None, command).await? {
            Reply::Attributes { inode, .. } => Ok(inode),
            _ => Err(FileError::Fault),
        }
    }

    /// Reads bytes `offset..offset + count` of a small file, up to its size.
    pub(crate) fn read_small(&self, inode: &Inode, offset: u64, count: u32) -> Result<Small, FileError> {
        // One view for inode and data: halves of two views do not belong together.
        let view = self.machine.view()?;
        let inode = self.machine.inode(&*view, inode.id)?;
        if inode.columns().is_some() {
            self.check_no_truncation(&*view, &inode)?;
            return Ok(Small::Gone(inode));
        }
        let end = offset.saturating_add(u64::from(count)).min(inode.size).max(offset);
        let mut data = Bytes::new();
        if offset < inode.written && offset < end {
            let all = read::inline_data(&*view, inode.id)?;
            let last = end.min(all.len() as u64);
            data = all.slice(offset.min(last) as usize..last as usize);
        }
        self.metrics.file_bytes_read.inc_by(data.len() as u64);
        let hole = end - offset - data.len() as u64;
        Ok(Small::Data { data, hole, eof: end >= inode.size })
    }
}

/// File error of a migration that the leader refused.
fn error_of_leader(status: Status) -> FileError {
    match status {
        Status::Stale => FileError::Stale,
        Status::Inval => FileError::Invalid,
        Status::NoSpc => FileError::NoSpace,
        Status::RoFs => FileError::ReadOnly,
        Status::Io => FileError::Io,
        Status::ServerFault => FileError::Fault,
        _ => FileError::Delay,
    }
}
