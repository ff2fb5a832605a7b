//! Columns without copies are put on open chains of their targets, from where they get copies or move, while their
//! files are in use.
//!
//! ```text
//! file ─▶ layouts recalled ─▶ epoch raised, data synced ─▶ Relocate: the column is on a chain ─▶ STAT: its object
//!         notes the chain
//! all files done ─▶ chains closed ─▶ STAT again ─▶ the leader gives them members, which are refilled; a chain of one
//!         copy moves
//! ```
//!
//! Nothing is copied before the chain is closed, so a file waits for two commands and two calls, whatever its size.
//! Between the command and STAT the first call of a client does what STAT does. So a metaserver that dies in between
//! leaves nothing that cannot be used.

pub(crate) mod apply;
mod close;
mod drain;

use std::collections::BTreeSet;

use namespace::{Chain, ChainId, Command, DataPlace, FileLayout, Inode, InodeId, Reply, TargetId};
use parking_lot::Mutex;
use wire::data::{Procedure, TargetCondition, stat};

use crate::data::Data;
use crate::data::hold::unheld;
use crate::data::placement::Choice;
use crate::errors::FileError;

/// Files without layouts that are given chains at the same time.
const FILES_AT_A_TIME: usize = 8;

/// What is done with the columns of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted<'a> {
    /// Copies that they get.
    pub copies: u8,
    /// Targets whose columns are concerned; none: all.
    pub targets: Option<&'a BTreeSet<TargetId>>,
}

/// Chains of one copy that this process has put columns on, and has not closed yet.
#[derive(Default)]
pub(crate) struct Used(Mutex<BTreeSet<ChainId>>);

impl Used {
    fn note(&self, chains: impl IntoIterator<Item = ChainId>) {
        self.0.lock().extend(chains);
    }

    fn take(&self) -> BTreeSet<ChainId> {
        std::mem::take(&mut self.0.lock())
    }
}

impl Data {
    /// Puts a file's columns without copies on chains. A file whose data are still with its inode gets another layout.
    /// Returns the number of columns; 0: nothing is to be done.
    ///
    /// # Errors
    /// `Delay` while a client has not returned a layout, or after a conflicting command in between. `Away` while a
    /// target is. `NoSpace` if there are too many devices.
    pub(crate) async fn put_on_chains(&self, file: InodeId, wanted: Wanted<'_>) -> Result<u32, FileError> {
        unheld(async {
            let lock = self.relocations.of(file);
            let _mine = lock.lock().await;
            let inode = match self.machine.inode(&*self.machine.view()?, file) {
                Err(FileError::Stale | FileError::NoEntry) => return Ok(0),
                inode => inode?,
            };
            match (inode.data(), inode.layout()) {
                (Some(DataPlace::Striped), Some(_)) => self.put_columns(inode, wanted).await,
                (Some(DataPlace::Inline), Some(layout)) if wanted.copies > 1 => {
                    self.place_with_copies(&inode, layout, wanted.copies).await
                }
                (Some(DataPlace::Inline), Some(layout)) if wanted.targets.is_some() => {
                    self.place_elsewhere(&inode, layout, wanted).await
                }
                (Some(DataPlace::Migrating), _) => Err(FileError::Delay),
                _ => Ok(0),
            }
        })
        .await
    }

    async fn put_columns(&self, inode: Inode, wanted: Wanted<'_>) -> Result<u32, FileError> {
        let data = self.file_data(&inode)?;
        let alone = self.columns_alone(&data.chains, data.layout, wanted);
        for (_, target) in &alone {
            self.check_usable(*target)?;
        }
        let of_fewer = self.chains_of_fewer_copies(&data.chains, wanted)?;
        // Without a place for its other copies a chain would never be whole.
        let concerned = alone.iter().map(|(_, target)| ChainId(target.0)).chain(of_fewer.iter().copied());
        for chain in concerned {
            if self.cluster.servers_of_pool(self.pool_of(&[chain])) < usize::from(wanted.copies) {
                return Err(FileError::Away);
            }
        }
        let mut raised = 0;
        for chain in of_fewer {
            self.cluster.raise_copies(chain, wanted.copies).await?;
            raised += 1;
        }
        if alone.is_empty() {
            return Ok(raised);
        }
        self.check_no_truncation(&*self.machine.view()?, &inode)?;
        let inode = self.exclude_writers(&inode).await?;
        let checked = self.version_without_writers(&inode)?;
        // The answers to unstable writes have the write verifier of the target. Later ones have that of the chain.
        self.sync_columns(&inode, &alone).await?;
        let number = self.placement.number_of_chain(inode.id);
        let all = (0..data.layout.columns).map(|column| data.layout.chain(&data.chains, column));
        let mut chains: Vec<ChainId> = all.collect::<Option<_>>().ok_or(FileError::Io)?;
        let mut opened = BTreeSet::new();
        for (column, target) in &alone {
            let open = self.cluster.open_chain(*target, wanted.copies, number).await?;
            chains[*column as usize] = open;
            opened.insert(open);
        }
        let choice = Choice::of_columns(&chains);
        if !self.placement.may_use(&choice.chains) {
            return Err(FileError::NoSpace);
        }
        let to = self.layout_of(choice, data.layout.unit).await?;
        let command = Command::Relocate { inode: inode.id, from: data.layout, to, checked };
        let Reply::Attributes { inode, .. } = self.state.propose(None, command).await? else {
            return Err(FileError::Fault);
        };
        if wanted.copies == 1 {
            self.used_chains.note(opened);
        }
        let columns: Vec<u32> = alone.iter().map(|(column, _)| *column).collect();
        if let Err(error) = self.stat_objects(&inode, &columns, false).await {
            // It is repeated before the chain is closed.
            tracing::debug!(inode = inode.id.0, ?error, "objects do not know of their chain yet");
        }
        Ok(raised + columns.len() as u32)
    }

    /// Chains that are to have more copies.
    ///
    /// # Errors
    /// `Delay` if one of them is open, since its target drains.
    fn chains_of_fewer_copies(
        &self,
        chains: &[ChainId],
        wanted: Wanted<'_>,
    ) -> Result<BTreeSet<ChainId>, FileError> {
        let all = self.cluster.chains();
        let has_fewer = |chain: &&Chain| chain.copies < wanted.copies;
        let concerned: Vec<&Chain> =
            chains.iter().filter_map(|chain| all.get(chain)).filter(has_fewer).collect();
        match concerned.iter().any(|chain| chain.is_of_one_for_now()) {
            true => Err(FileError::Delay),
            false => Ok(concerned.iter().map(|chain| chain.id).collect()),
        }
    }

    /// Columns that are on a target alone, of those that are concerned, with the targets.
    fn columns_alone(
        &self,
        chains: &[ChainId],
        layout: FileLayout,
        wanted: Wanted<'_>,
    ) -> Vec<(u32, TargetId)> {
        let lost = self.cluster.data_servers.lost_targets();
        let is_concerned = |target: &TargetId| {
            !lost.contains(target) && wanted.targets.is_none_or(|targets| targets.contains(target))
        };
        let alone = |column| {
            let chain =
                layout.chain(chains, column).filter(|chain| self.cluster.is_of_target_alone(*chain))?;
            Some((column, TargetId(chain.0))).filter(|(_, target)| is_concerned(target))
        };
        (0..layout.columns).filter_map(alone).collect()
    }

    /// Checks that a target is there, and can store what its objects are to know.
    fn check_usable(&self, target: TargetId) -> Result<(), FileError> {
        let reports = self.cluster.data_servers.report();
        let report = reports.iter().find(|report| report.target == target && report.alive);
        match report.map(|report| report.condition) {
            Some(TargetCondition::Ok | TargetCondition::Full | TargetCondition::Damaged) => Ok(()),
            _ => Err(FileError::Away),
        }
    }

    /// Makes the data of columns durable, and has their objects note the file's epoch.
    async fn sync_columns(&self, inode: &Inode, columns: &[(u32, TargetId)]) -> Result<(), FileError> {
        let columns: Vec<u32> = columns.iter().map(|(column, _)| *column).collect();
        self.stat_objects(inode, &columns, true).await
    }

    /// Has the objects of these columns note the epoch of the file, and their chains.
    async fn stat_objects(&self, inode: &Inode, columns: &[u32], sync: bool) -> Result<(), FileError> {
        let objects = self.file_data(inode)?.objects();
        for object in objects.into_iter().filter(|object| columns.contains(&object.column)) {
            let args = move |handle| stat::Args { handles: vec![handle], sync };
            self.call_object::<_, stat::ResOk>(object, Procedure::Stat, args).await?;
        }
        Ok(())
    }

    /// Gives a file without objects a layout with this many copies.
    async fn place_with_copies(
        &self,
        inode: &Inode,
        layout: FileLayout,
        copies: u8,
    ) -> Result<u32, FileError> {
        let data = self.file_data_of(inode, layout)?;
        let all = self.cluster.chains();
        if data.chains.iter().all(|chain| all.get(chain).map_or(1, |chain| chain.copies) >= copies) {
            return Ok(0);
        }
        let checked = self.version_without_writers(inode)?;
        let candidates = self.candidates(copies, self.pool_of(&data.chains));
        let choice = self.placement.choose(&candidates, layout.columns).ok_or(FileError::Away)?;
        let to = self.layout_of(choice, layout.unit).await?;
        let command = Command::Relocate { inode: inode.id, from: layout, to, checked };
        self.state.propose(None, command).await?;
        Ok(to.columns)
    }

    /// Gives a file whose data are still with its inode a layout without the targets that are to be left. What a LAYOUTGET
    /// has made there, which was not granted in the end, is no longer the file's then.
    async fn place_elsewhere(
        &self,
        inode: &Inode,
        layout: FileLayout,
        wanted: Wanted<'_>,
    ) -> Result<u32, FileError> {
        let data = self.file_data_of(inode, layout)?;
        if self.columns_alone(&data.chains, layout, wanted).is_empty() {
            return Ok(0);
        }
        let checked = self.version_without_writers(inode)?;
        let to = self.place_again(inode, layout).await?.ok_or(FileError::NoSpace)?;
        let command = Command::Relocate { inode: inode.id, from: layout, to, checked };
        self.state.propose(None, command).await?;
        Ok(to.columns)
    }
}
