//! Relocation: columns without data get other chains if theirs cannot take data: the only target of the chain, or
//! one of its members, has filled up or failed meanwhile. So a new file does not fail for that.
//!
//! ```text
//! WRITE ─▶ target 3: NOSPC ─▶ may a column move? ─▶ layouts recalled ─▶ epoch raised ─▶ column empty?
//!       ─▶ MAKE at target 5 ─▶ Relocate ─▶ WRITE
//! ```
//!
//! Layouts are recalled only if a column looks empty and another chain has room: a client that writes until all is full
//! must not lose its layout at each write.
//!
//! The second question whether a column is empty has the new epoch, so earlier writers are refused from then on. The
//! state machine refuses `Relocate` if a layout to write was granted, or the file written, after the raise
//! (`namespace::FileVersion`). A write through a metaserver that comes even later has its `Wrote` refused,
//! and its client writes again.

use std::collections::BTreeSet;

use namespace::{ChainId, Command, DataPlace, FileLayout, FileVersion, Inode, IoMode, Reply, read};
use tokio::time::timeout;
use wire::data::seek::{self, What};
use wire::data::{self, Procedure};

use crate::data::Data;
use crate::data::hold::{SHORT_TIME_MAX, unheld};
use crate::data::placement::Candidate;
use crate::data::proxy::FileData;
use crate::errors::FileError;
use crate::state::recall::Holders;

impl Data {
    /// Gives other targets to columns of a file that have no data on unfit targets. Returns the file with its
    /// new layout; none: no column can move.
    ///
    /// # Errors
    /// `Delay` while a client has not returned a layout, or after a conflicting command in between.
    pub(crate) async fn relocate(&self, before: &Inode) -> Result<Option<Inode>, FileError> {
        unheld(self.relocate_from(before, &|chain| self.cluster.is_unfit(chain))).await
    }

    /// [`Data::relocate`] from the chains for which `leaves` is true.
    pub(crate) async fn relocate_from(
        &self,
        before: &Inode,
        leaves: &(dyn Fn(ChainId) -> bool + Sync),
    ) -> Result<Option<Inode>, FileError> {
        let lock = self.relocations.of(before.id);
        // Requests that wait have slots and payload of their client, which may need both to return its layout.
        let _mine = timeout(SHORT_TIME_MAX, lock.lock()).await.map_err(|_| FileError::Delay)?;
        let mut inode = self.machine.inode(&*self.machine.view()?, before.id)?;
        let Some(layout) = inode.layout() else { return Ok(None) };
        if Some(layout) != before.layout() {
            return Ok(Some(inode)); // another call has just relocated the file
        }
        if inode.columns().is_some() && !self.columns_to_leave(&inode, leaves)?.is_empty() {
            if !self.may_move_columns(&inode, leaves).await? {
                return Ok(None);
            }
            inode = self.exclude_writers(&inode).await?;
        }
        let checked = self.version_without_writers(&inode)?;
        let to = match inode.data() {
            Some(DataPlace::Striped) => self.place_columns_again(&inode, leaves).await?,
            Some(DataPlace::Inline | DataPlace::Migrating) => self.place_again(&inode, layout).await?,
            None => None,
        };
        let Some(to) = to else { return Ok(None) };
        let command = Command::Relocate { inode: inode.id, from: layout, to, checked };
        match self.state.propose(None, command).await? {
            Reply::Attributes { inode, .. } => Ok(Some(inode)),
            _ => Err(FileError::Fault),
        }
    }

    /// Returns a new layout for a file with inline data; none: it has a usable one, or there is no other.
    pub(crate) async fn place_again(
        &self,
        inode: &Inode,
        layout: FileLayout,
    ) -> Result<Option<FileLayout>, FileError> {
        let data = self.file_data_of(inode, layout)?;
        let usable = self.candidates_beside(&data.chains);
        let is_usable = |chain: &ChainId| usable.iter().any(|u| u.chain == *chain && u.has_room);
        if data.chains.iter().all(is_usable) {
            return Ok(None);
        }
        match self.placement.choose(&usable, layout.columns) {
            Some(choice) if choice.chains.iter().all(is_usable) => {
                self.layout_of(choice, layout.unit).await.map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Returns a new layout for a striped file, with other chains for its empty columns.
    async fn place_columns_again(
        &self,
        inode: &Inode,
        leaves: &(dyn Fn(ChainId) -> bool + Sync),
    ) -> Result<Option<FileLayout>, FileError> {
        let data = self.file_data(inode)?;
        let mut empty = Vec::new();
        for column in self.columns_to_leave(inode, leaves)? {
            if self.is_empty(inode, &data, column).await {
                empty.push(column);
            }
        }
        if empty.is_empty() {
            return Ok(None);
        }
        let usable = self.candidates_for(&data, &empty);
        let moves = |column| empty.contains(&column);
        let Some(choice) = self.placement.choose_again(&usable, &data.layout, &data.chains, moves) else {
            return Ok(None);
        };
        let to = self.layout_of(choice, data.layout.unit).await?;
        // Only moved columns are made: a missing object of another column is lost data, and no hole.
        self.make_columns(&self.file_data_of(inode, to)?, moves).await?;
        Ok(Some(to))
    }

    /// Chains that these columns of the file may be put on.
    fn candidates_for(&self, data: &FileData, columns: &[u32]) -> Vec<Candidate> {
        let mut usable = self.candidates_beside(&data.chains);
        // Not the target alone whose chain the column leaves: its object there has the mark of the chain.
        let chain_of = |column: &u32| data.layout.chain(&data.chains, *column);
        let left = columns.iter().filter_map(chain_of).flat_map(|chain| self.cluster.members_of(chain));
        let left: BTreeSet<ChainId> = left.map(ChainId::from).collect();
        usable.retain(|candidate| !left.contains(&candidate.chain));
        usable
    }

    /// False if no column can move, whatever its writers do: each has data, or no other chain has room. Data do not go
    /// without a truncation.
    async fn may_move_columns(
        &self,
        inode: &Inode,
        leaves: &(dyn Fn(ChainId) -> bool + Sync),
    ) -> Result<bool, FileError> {
        let data = self.file_data(inode)?;
        for column in self.columns_to_leave(inode, leaves)? {
            let now = data.layout.chain(&data.chains, column);
            let has_room = |other: &Candidate| other.has_room && Some(other.chain) != now;
            if self.candidates_for(&data, &[column]).iter().any(has_room)
                && self.may_be_empty(inode, &data, column).await
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Columns of a striped file on chains for which `leaves` is true.
    fn columns_to_leave(
        &self,
        inode: &Inode,
        leaves: &(dyn Fn(ChainId) -> bool + Sync),
    ) -> Result<Vec<u32>, FileError> {
        let data = self.file_data(inode)?;
        let left = |column: &u32| data.layout.chain(&data.chains, *column).is_some_and(leaves);
        Ok((0..data.layout.columns).filter(left).collect())
    }

    /// Version of a file without a layout to write: a later grant changes it.
    ///
    /// # Errors
    /// `Delay` if a client has such a layout, or the file has changed since `inode` was read.
    pub(super) fn version_without_writers(&self, inode: &Inode) -> Result<FileVersion, FileError> {
        let view = self.machine.view()?;
        let now = self.machine.inode(&*view, inode.id)?;
        let is_written = read::layouts(&*view, inode.id)?.iter().any(|(.., mode)| *mode == IoMode::ReadWrite);
        let version = read::version(&*view, &now)?;
        if is_written
            || (version.epoch, version.change, version.data) != (inode.epoch, inode.change, inode.data())
        {
            return Err(FileError::Delay);
        }
        Ok(version)
    }

    /// Recalls all layouts of a file, and raises its epoch: a call with this epoch finds all that was written
    /// before, and nothing of that comes later. Returns the inode with the new epoch.
    pub(super) async fn exclude_writers(&self, inode: &Inode) -> Result<Inode, FileError> {
        self.state.recall_layouts(inode.id, inode.generation, Holders::All).await?;
        let epoch = self.machine.inode(&*self.machine.view()?, inode.id)?.epoch;
        match self.state.propose(None, Command::RaiseEpoch { inode: inode.id, epoch }).await? {
            Reply::Attributes { inode, .. } => Ok(inode),
            _ => Err(FileError::Fault),
        }
    }

    /// True if an object has no data, according to its data server. An object that cannot be asked about may
    /// have data that were acknowledged as durable.
    async fn is_empty(&self, inode: &Inode, data: &FileData, column: u32) -> bool {
        let Some(chain) = data.layout.chain(&data.chains, column) else { return false };
        if self.cluster.is_chain_lost(chain) {
            return self.is_lost_and_empty(inode, &data.layout, column, chain);
        }
        self.end_of_column(data, column).await == Ok(0)
    }

    /// As [`Data::is_empty`], of a file that others write meanwhile: true if that may be the answer without them.
    async fn may_be_empty(&self, inode: &Inode, data: &FileData, column: u32) -> bool {
        let Some(chain) = data.layout.chain(&data.chains, column) else { return false };
        if self.cluster.is_chain_lost(chain) {
            return data.layout.object_len(column, inode.size) == 0;
        }
        match self.end_of_column(data, column).await {
            Ok(end) => end == 0,
            Err(error) => matches!(error, FileError::NoAnswer | FileError::StaleEpoch),
        }
    }

    /// The length of a column's object, according to its data server.
    async fn end_of_column(&self, data: &FileData, column: u32) -> Result<u64, FileError> {
        let object = data.objects().into_iter().nth(column as usize).ok_or(FileError::Fault)?;
        let args = |handle| data::seek::Args { handle, offset: 0, what: What::End };
        let end = self.call_object::<_, seek::ResOk>(object, Procedure::Seek, args).await?;
        end.found.ok_or(FileError::Fault)
    }

    /// True if a column is on a lost chain and has no data of the file: then no data are lost. An unsettled
    /// file may have data there that no metaserver knows of.
    pub(crate) fn is_lost_and_empty(
        &self,
        inode: &Inode,
        layout: &FileLayout,
        column: u32,
        chain: ChainId,
    ) -> bool {
        self.cluster.is_chain_lost(chain)
            && layout.object_len(column, inode.size) == 0
            && self.machine.view().is_ok_and(|view| matches!(read::unsettled(&*view, inode.id), Ok(None)))
    }

    /// True if a striped file has a column on a lost chain.
    pub(crate) fn has_lost_column(&self, inode: &Inode) -> Result<bool, FileError> {
        let lost = self.cluster.data_servers.lost_targets();
        if lost.is_empty() || inode.columns().is_none() {
            return Ok(false);
        }
        Ok(self.file_data(inode)?.chains.iter().any(|chain| self.cluster.is_chain_lost(*chain)))
    }

    /// Relocates all columns of a file that are on lost targets, before a change of its size or a layout
    /// grant.
    ///
    /// # Errors
    /// `Io` when a column on a lost target has data.
    pub(crate) async fn leave_lost_targets(&self, inode: &Inode) -> Result<(), FileError> {
        if !self.has_lost_column(inode)? {
            return Ok(());
        }
        // What a snapshot shows stays where it is.
        if inode.id.is_read_only() || namespace::read::shares_objects(&*self.machine.view()?, inode)? {
            return Err(FileError::Io);
        }
        // A truncation that waits for the lost target blocks the relocation, and a wait would have no end.
        if namespace::read::pending_truncation(&*self.machine.view()?, inode.id)? {
            return Err(FileError::Io);
        }
        match self.relocate(inode).await? {
            Some(moved) if !self.has_lost_column(&moved)? => Ok(()),
            _ => Err(FileError::Io),
        }
    }

    /// Checks that no truncation of the file is pending.
    ///
    /// # Errors
    /// `Delay` while a truncation is pending; `Io` when it cannot be done, because a target is lost.
    pub(crate) fn check_no_truncation(&self, view: &dyn store::View, inode: &Inode) -> Result<(), FileError> {
        if !namespace::read::pending_truncation(view, inode.id)? {
            return Ok(());
        }
        if self.has_lost_column(inode)? { Err(FileError::Io) } else { Err(FileError::Delay) }
    }
}
