//! Objects of a file that a snapshot shows, before its data change: the data servers copy them, and the file goes on
//! with the copies.
//!
//! ```text
//! layouts back ─▶ CopyObjects ─▶ old objects: durable, and the new epoch noted ─▶ copies made, filled, durable
//!              ─▶ CopiedObjects
//! ```
//!
//! The objects of a clone's file are those of its origin at first: then their epoch stays.
//!
//! Data servers attach the copies to the old objects, and copy their bytes later, region by region (`dataserver::attached`):
//! the first write to a file takes the same time whatever its length. Columns that they do not attach are copied: without
//! copies where their file system shares data between files (reflink), which copies nothing; and while a member of a chain
//! is refilled: then the first write to a big file takes as long as that, and clients are told to try again meanwhile.
//! The leader copies, each file once at a time; one that ends without an outcome is begun again, with other objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use host::watch;
use namespace::{Command, Inode, InodeId, read};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use wire::data::{ObjectEntry, Procedure, attach, stat};

use crate::data::Data;
use crate::data::hold::{unheld, wait_for_work};
use crate::data::proxy::FileData;
use crate::errors::FileError;
use crate::state::recall::Holders;

/// Outcome of a copy; none yet while it is under way.
type Outcome = Option<Result<(), FileError>>;

/// Copies under way.
#[derive(Default)]
pub(crate) struct ObjectCopies(Mutex<BTreeMap<InodeId, watch::Receiver<Outcome>>>);

impl Data {
    /// Returns the file with its data in objects that no snapshot shows.
    ///
    /// # Errors
    /// As [`Data::in_columns`]; `Delay` while a client has a layout of the file, or a copy takes longer than a request
    /// can be held.
    pub(crate) async fn own_columns(self: &Arc<Self>, inode: Inode) -> Result<Inode, FileError> {
        if inode.id.is_read_only() {
            return Err(FileError::ReadOnly);
        }
        let inode = self.in_columns(inode).await?;
        if !read::shares_objects(&*self.machine.view()?, &inode)? {
            return Ok(inode); // the usual case
        }
        match self.machine.replica.leads() {
            true => self.copied(inode.id).await?,
            false => drop(wait_for_work(unheld(self.migrate_at_leader(inode.id))).await??),
        }
        let inode = self.machine.inode(&*self.machine.view()?, inode.id)?;
        match read::shares_objects(&*self.machine.view()?, &inode)? {
            true => Err(FileError::Delay),
            false => Ok(inode),
        }
    }

    /// [`Data::own_columns`] for a file that may have no objects.
    ///
    /// # Errors
    /// As [`Data::own_columns`].
    pub(crate) async fn own_columns_if_any(self: &Arc<Self>, inode: &Inode) -> Result<(), FileError> {
        match inode.columns() {
            Some(_) => self.own_columns(inode.clone()).await.map(drop),
            None => Ok(()),
        }
    }

    /// At the leader: has the file's data in objects that no snapshot shows.
    ///
    /// # Errors
    /// As [`Data::own_columns`].
    pub(crate) async fn columns_at_leader(self: &Arc<Self>, inode: InodeId) -> Result<(), FileError> {
        let inode = self.migrate_to_objects(inode).await?;
        self.own_columns(inode).await.map(drop)
    }

    /// Has the objects of a file copied, or waits for the copy that is under way.
    async fn copied(self: &Arc<Self>, inode: InodeId) -> Result<(), FileError> {
        let mut outcome = {
            let mut copies = self.object_copies.0.lock();
            match copies.get(&inode) {
                Some(under_way) => under_way.clone(),
                None => {
                    let (done, outcome) = watch::channel(None);
                    copies.insert(inode, outcome.clone());
                    let data = Arc::clone(self);
                    // It goes on when the request is answered with DELAY.
                    tokio::spawn(async move {
                        let copied = data.copy_objects(inode).await;
                        data.object_copies.0.lock().remove(&inode);
                        done.set(Some(copied));
                    });
                    outcome
                }
            }
        };
        let ended = async move { outcome.wait_for(Option::is_some).await.map(|outcome| *outcome) };
        wait_for_work(ended).await?.map_err(|_| FileError::Delay)?.unwrap_or(Err(FileError::Delay))
    }

    /// Attaches the columns of `to` to those of `from`, and returns those for which it was done.
    async fn attach_columns(&self, from: &FileData, to: &FileData) -> Result<BTreeSet<u32>, FileError> {
        let mut calls = JoinSet::new();
        for (base, object) in from.objects().into_iter().zip(to.objects()) {
            let base = ObjectEntry {
                volume: base.file.volume,
                inode: base.file.inode,
                generation: base.file.generation,
                column: base.column,
            };
            let args = move |handle| attach::Args { handle, base };
            let attach = self.call_object::<_, attach::ResOk>(object, Procedure::Attach, args);
            calls.spawn(async move { (object.column, attach.await) });
        }
        let mut attached = BTreeSet::new();
        while let Some(done) = calls.join_next().await {
            match done.map_err(|_| FileError::Fault)? {
                (column, Ok(())) => drop(attached.insert(column)),
                (_, Err(FileError::NotSupported)) => {}
                (_, Err(error)) => return Err(error),
            }
        }
        Ok(attached)
    }

    async fn copy_objects(&self, inode: InodeId) -> Result<(), FileError> {
        let lock = self.content_locks.of(inode);
        let _held = lock.lock().await;
        let file = self.machine.inode(&*self.machine.view()?, inode)?;
        self.state.recall_layouts(inode, file.generation, Holders::All).await?;
        let file = self.attributes(Command::CopyObjects { inode }).await?;
        let Some(copy) = read::copy_of_objects(&*self.machine.view()?, inode)? else {
            return Ok(()); // they are its own
        };
        let from = self.file_data(&file)?;
        let to = from.named(copy, &file);
        for object in from.objects() {
            let args = |handle| stat::Args { handles: vec![handle], sync: true };
            self.call_object::<_, stat::ResOk>(object, Procedure::Stat, args).await?;
        }
        self.make_columns(&to, |_| true).await?;
        let attached = self.attach_columns(&from, &to).await?;
        if attached.len() < from.layout.columns as usize {
            self.copy_columns(&from, &to, file.size, |column| !attached.contains(&column)).await?;
        }
        self.attributes(Command::CopiedObjects { inode, copy, epoch: file.epoch }).await?;
        tracing::debug!(
            inode = inode.0,
            bytes = file.size,
            attached = attached.len(),
            "a snapshot shows the objects of a file: it goes on with others, attached to them or copied"
        );
        Ok(())
    }
}
