//! Proxy: reads and writes file data at the data servers for clients without a layout.
//!
//! Payloads pass through by reference. Pieces of one operation go to their data servers at the same time.

use std::collections::BTreeMap;

use bytes::Bytes;
use namespace::{ChainId, Command, DataPlace, FileLayout, Inode, InodeId, TargetId, read};
use parking_lot::Mutex;
use store::View;
use tokio::task::JoinSet;
use wire::data::{self, Procedure};
use wire::handle::{FileHandle, ObjectHandle};
use wire::xdr::Payload;

use super::claim::Claim;
use crate::data::Data;
use crate::data::hold::wait_for_return;
use crate::data::migration::Small;
use crate::errors::FileError;

/// Maximum of tries of a write at other targets: each try avoids all targets known to be unfit.
const RELOCATIONS_MAX: usize = 3;

/// Location of a file's data, and the file handle that the handles of its objects carry.
#[derive(Clone)]
pub(crate) struct FileData {
    file: FileHandle,
    pub(crate) layout: FileLayout,
    /// Chains of the device, to be indexed by [`FileLayout::chain_index`].
    pub(crate) chains: Vec<ChainId>,
    incarnation: u64,
    /// Object epochs of calls and layouts.
    epochs: (u32, u32),
}

/// Write verifier of this server. It changes when this server or any data server may have lost unstable
/// writes.
///
/// There is one verifier for all files, since a WRITE to one data server must be comparable with a COMMIT to
/// all of them.
pub(crate) struct WriteVerifier {
    start: u64,
    state: Mutex<VerifierState>,
}

#[derive(Default)]
struct VerifierState {
    epoch: u64,
    seen: BTreeMap<ChainId, data::WriteVerifier>,
}

impl WriteVerifier {
    pub(crate) fn new(random: u64) -> Self {
        Self { start: random, state: Mutex::default() }
    }

    /// Notes the write verifier of a data server's answer.
    pub(crate) fn saw(&self, chain: ChainId, verifier: data::WriteVerifier) {
        let mut state = self.state.lock();
        if state.seen.insert(chain, verifier).is_some_and(|before| before != verifier) {
            state.epoch += 1;
        }
    }

    /// Returns the current verifier.
    pub(crate) fn get(&self) -> [u8; 8] {
        let epoch = self.state.lock().epoch;
        self.start.wrapping_add(epoch).to_be_bytes()
    }
}

/// Incarnation of the group as sent to data servers: the first half of its id, and its number.
pub(crate) fn incarnation(view: &dyn View) -> Result<(u64, u64), FileError> {
    let incarnation = read::incarnation(view)?.ok_or(FileError::Delay)?;
    let [a, b, c, d, e, f, g, h, ..] = incarnation.id;
    Ok((u64::from_be_bytes([a, b, c, d, e, f, g, h]).max(1), incarnation.epoch))
}

impl FileData {
    /// Number in the names of the objects.
    pub(crate) fn id(&self) -> InodeId {
        InodeId(self.file.inode)
    }

    /// The same columns, of objects with another number and the epochs of the file.
    pub(crate) fn named(&self, id: InodeId, inode: &Inode) -> Self {
        let (file, epochs) = (FileHandle { inode: id.0, ..self.file }, (inode.epoch, inode.layout_epoch));
        Self { file, epochs, ..self.clone() }
    }

    /// Handles of the columns, in their order, for the only target of each chain: see [`Data::call_object`].
    pub(crate) fn objects(&self) -> Vec<ObjectHandle> {
        let (epoch, layout_epoch) = self.epochs;
        let object = |column| {
            let chain = self.layout.chain(&self.chains, column).unwrap_or(ChainId(0)).0;
            ObjectHandle {
                file: self.file,
                column,
                target: chain,
                unit: self.layout.unit.bytes(),
                columns: self.layout.columns,
                incarnation: self.incarnation,
                epoch,
                layout_epoch,
                chain,
                chain_version: 0,
            }
        };
        (0..self.layout.columns).map(object).collect()
    }
}

impl Data {
    /// Returns the location of the objects of `inode`. `Delay` while its data are not in objects: see
    /// [`crate::data::migration::migrate_to_objects`].
    pub(crate) fn file_data(&self, inode: &Inode) -> Result<FileData, FileError> {
        inode.layout().ok_or(FileError::Invalid)?;
        let columns = inode.columns().ok_or(FileError::Delay)?;
        self.file_data_of(inode, columns)
    }

    /// Like [`Data::file_data`], to change the data. `Delay` while a snapshot shows them: see
    /// [`Data::own_columns`](crate::data::Data::own_columns).
    pub(crate) fn own_data(&self, inode: &Inode) -> Result<FileData, FileError> {
        if inode.id.is_read_only() {
            return Err(FileError::ReadOnly);
        }
        if read::shares_objects(&*self.machine.view()?, inode)? {
            return Err(FileError::Delay);
        }
        self.file_data(inode)
    }

    /// Like [`Data::file_data`] with another layout than that of the inode, or before the objects are made.
    pub(crate) fn file_data_of(&self, inode: &Inode, layout: FileLayout) -> Result<FileData, FileError> {
        let objects = read::objects(&*self.machine.view()?, inode)?.ok_or(FileError::Delay)?;
        self.file_data_at(objects.id, inode.generation, objects.epochs, layout)
    }

    /// Like [`Data::file_data`] from the number of the objects, also after the removal of the file. `epochs`: of calls
    /// and of layouts.
    pub(crate) fn file_data_at(
        &self,
        objects: InodeId,
        generation: u32,
        epochs: (u32, u32),
        layout: FileLayout,
    ) -> Result<FileData, FileError> {
        let view = self.machine.view()?;
        let device = read::device(&*view, layout.device)?.ok_or(FileError::Io)?;
        let file = FileHandle { volume: self.machine.volume, inode: objects.0, generation };
        let incarnation = incarnation(&*view)?.0;
        Ok(FileData { file, layout, chains: device.chains, incarnation, epochs })
    }

    /// Chains of a file's columns with the targets to call and sealed handles, in the order of columns, for calls
    /// about several objects of a target.
    pub(crate) fn object_handles(&self, data: &FileData) -> Vec<(ChainId, TargetId, Bytes)> {
        let head = |object: ObjectHandle| {
            let chain = ChainId(object.chain);
            let target = self.cluster.head_of(chain);
            (chain, target, ObjectHandle { target: target.0, ..object }.seal(&self.machine.key))
        };
        data.objects().into_iter().map(head).collect()
    }

    /// Reads bytes `offset..offset + count` of a file, up to its size. The second value is true at the end of
    /// the file.
    pub(crate) async fn read_data(
        &self,
        inode: &Inode,
        offset: u64,
        count: u32,
    ) -> Result<(Payload, bool), FileError> {
        let mut now;
        let mut inode = inode;
        loop {
            match self.read_columns(inode, offset, count).await {
                Err(FileError::StaleEpoch) => now = self.inode_after_change(inode).await?,
                outcome => return outcome,
            }
            inode = &now;
        }
    }

    async fn read_columns(
        &self,
        inode: &Inode,
        offset: u64,
        count: u32,
    ) -> Result<(Payload, bool), FileError> {
        let gone;
        let inode = match inode.columns() {
            Some(_) => inode,
            None => match self.read_small(inode, offset, count)? {
                Small::Data { data, hole, eof } => {
                    let mut payload = Payload::from(data);
                    payload.push_zeros(hole as usize);
                    return Ok((payload, eof));
                }
                Small::Gone(now) => {
                    gone = now;
                    &gone
                }
            },
        };
        let len = inode.size.saturating_sub(offset).min(u64::from(count));
        let eof = offset.saturating_add(len) >= inode.size;
        if len == 0 {
            return Ok((Payload::default(), eof));
        }
        let data = self.file_data(inode)?;
        let objects = data.objects();
        let mut calls = JoinSet::new();
        let mut pieces = Vec::new();
        for extent in data.layout.extents(offset, len) {
            let (offset, count) = (extent.object_offset, extent.len as u32);
            let args = move |handle| data::read::Args { handle, offset, count };
            let object = objects[extent.column as usize];
            let call = self.call_object::<_, data::read::ResOk>(object, Procedure::Read, args);
            let index = pieces.len();
            pieces.push((extent.len as usize, Payload::default()));
            calls.spawn(async move { (index, call.await) });
        }
        while let Some(done) = calls.join_next().await {
            let (index, result) = done.map_err(|_| FileError::Fault)?;
            pieces[index].1 = result?.payload;
        }
        let mut payload = Payload::default();
        for (len, piece) in pieces {
            // An object may end within the piece: the rest of the piece is a hole.
            let hole = len.checked_sub(piece.len()).ok_or(FileError::Fault)?;
            payload.append(piece);
            payload.push_zeros(hole);
        }
        self.metrics.file_bytes_read.inc_by(payload.len() as u64);
        Ok((payload, eof))
    }

    /// Writes a file's bytes from `offset` on. The caller then proposes [`namespace::Command::Wrote`].
    pub(crate) async fn write_data(
        &self,
        inode: &Inode,
        offset: u64,
        payload: Payload,
        stable: bool,
    ) -> Result<(), FileError> {
        let written = self.write_columns(&self.own_data(inode)?, offset, payload, stable).await;
        self.fence_unanswered(inode, written).await
    }

    /// Passes on the outcome of calls that change a file's objects. If one of them got no answer, the epoch of
    /// the file is raised first: carried out after the client's next try, it could undo what came in between.
    pub(crate) async fn fence_unanswered<T>(
        &self,
        inode: &Inode,
        outcome: Result<T, FileError>,
    ) -> Result<T, FileError> {
        if matches!(outcome, Err(FileError::NoAnswer)) {
            let command = Command::RaiseEpoch { inode: inode.id, epoch: inode.epoch };
            self.state.propose(None, command).await?;
        }
        outcome
    }

    /// The file as it is a moment later, after a raise of its epoch or another change: for a request that is held,
    /// and whose client still has its state.
    ///
    /// # Errors
    /// `Delay` in other cases, and while the file is truncated.
    pub(crate) async fn inode_after_change(&self, before: &Inode) -> Result<Inode, FileError> {
        wait_for_return(FileError::Delay).await?;
        let view = self.machine.view()?;
        let now = self.machine.inode(&*view, before.id)?;
        if now.generation != before.generation {
            return Err(FileError::Stale);
        }
        self.check_no_truncation(&*view, &now)?;
        Ok(now)
    }

    /// Like [`Data::write_data`], with known objects.
    pub(crate) async fn write_columns(
        &self,
        data: &FileData,
        offset: u64,
        payload: Payload,
        stable: bool,
    ) -> Result<(), FileError> {
        let objects = data.objects();
        let mut calls = JoinSet::new();
        for extent in data.layout.extents(offset, payload.len() as u64) {
            let object = objects[extent.column as usize];
            let start = (extent.file_offset - offset) as usize;
            let piece = payload.slice(start, start + extent.len as usize);
            let len = piece.len() as u32;
            let offset = extent.object_offset;
            let args =
                move |handle| data::write::Args { handle, offset, stable, sums: vec![], data: piece.clone() };
            let call = self.call_object::<_, data::write::ResOk>(object, Procedure::Write, args);
            calls.spawn(async move { (ChainId(object.chain), len, call.await) });
        }
        while let Some(done) = calls.join_next().await {
            let (chain, len, result) = done.map_err(|_| FileError::Fault)?;
            let result = result?;
            self.write_verifier.saw(chain, result.verifier);
            if result.count != len {
                return Err(FileError::Io);
            }
        }
        self.metrics.file_bytes_written.inc_by(payload.len() as u64);
        Ok(())
    }

    /// [`Data::write_data`] with relocation: columns without data whose targets are full, failed or lost get
    /// other targets. Returns the current inode.
    ///
    /// # Errors
    /// `Delay` if another attempt at the request has claimed it.
    pub(crate) async fn write_or_relocate(
        &self,
        mut inode: Inode,
        offset: u64,
        payload: Payload,
        stable: bool,
        claim: &Claim,
    ) -> Result<Inode, FileError> {
        let mut relocations = 0;
        loop {
            inode = self.unless_claimed(claim, inode)?;
            match self.write_data(&inode, offset, payload.clone(), stable).await {
                Ok(()) => return Ok(inode),
                Err(FileError::NoAnswer | FileError::StaleEpoch) => {
                    inode = self.inode_after_change(&inode).await?;
                }
                Err(status @ (FileError::NoSpace | FileError::Io | FileError::ReadOnly))
                    if relocations < RELOCATIONS_MAX =>
                {
                    inode = match self.relocate(&inode).await {
                        // Other columns are written at the same time.
                        Err(FileError::Delay) => self.inode_after_change(&inode).await?,
                        moved => {
                            relocations += 1;
                            moved?.ok_or(status)?
                        }
                    };
                }
                Err(status) => return Err(status),
            }
        }
    }

    /// Makes a file's unstable writes durable on all its data servers.
    pub(crate) async fn commit_data(&self, inode: &Inode) -> Result<(), FileError> {
        if inode.data() == Some(DataPlace::Inline) {
            return Ok(()); // each write was durable before its answer
        }
        let data = self.file_data(inode)?;
        let is_there = |object: &ObjectHandle| {
            !self.is_lost_and_empty(inode, &data.layout, object.column, ChainId(object.chain))
        };
        self.commit_columns(&data, is_there).await
    }

    /// Makes the unstable writes to objects durable.
    pub(crate) async fn commit_columns(
        &self,
        data: &FileData,
        is_meant: impl Fn(&ObjectHandle) -> bool,
    ) -> Result<(), FileError> {
        let mut calls = JoinSet::new();
        for object in data.objects().into_iter().filter(is_meant) {
            let chain = ChainId(object.chain);
            let args = |handle| data::commit::Args { handle };
            let call = self.call_object::<_, data::commit::ResOk>(object, Procedure::Commit, args);
            calls.spawn(async move { (chain, call.await) });
        }
        while let Some(done) = calls.join_next().await {
            let (chain, result) = done.map_err(|_| FileError::Fault)?;
            self.write_verifier.saw(chain, result?.verifier);
        }
        Ok(())
    }

    /// Makes the missing objects of the columns for which `is_meant` is true, empty and durable, with one
    /// call to each target, and to each chain of several.
    pub(crate) async fn make_columns(
        &self,
        data: &FileData,
        is_meant: impl Fn(u32) -> bool,
    ) -> Result<(), FileError> {
        let mut by_target = BTreeMap::<TargetId, Vec<Bytes>>::new();
        let mut calls = JoinSet::new();
        for object in data.objects().into_iter().filter(|object| is_meant(object.column)) {
            let target = self.cluster.head_of(ChainId(object.chain));
            if target.0 != object.chain {
                let args = |handle| data::make::Args { handles: vec![handle] };
                calls.spawn(self.call_object::<_, ()>(object, Procedure::Make, args));
            } else {
                by_target.entry(target).or_default().push(object.seal(&self.machine.key));
            }
        }
        for (target, handles) in by_target {
            let args = data::make::Args { handles };
            calls.spawn(self.call_target::<_, ()>(target, Procedure::Make, args));
        }
        while let Some(done) = calls.join_next().await {
            done.map_err(|_| FileError::Fault)??;
        }
        Ok(())
    }

    /// Truncates a file's objects to their lengths in a file of `size` bytes.
    pub(crate) async fn truncate_data(&self, data: &FileData, size: u64) -> Result<(), FileError> {
        let mut calls = JoinSet::new();
        for object in data.objects() {
            let len = data.layout.object_len(object.column, size);
            let args = move |handle| data::truncate::Args { handle, len };
            calls.spawn(self.call_object::<_, ()>(object, Procedure::Truncate, args));
        }
        while let Some(done) = calls.join_next().await {
            done.map_err(|_| FileError::Fault)??;
        }
        Ok(())
    }
}
