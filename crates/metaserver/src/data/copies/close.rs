//! Closing of chains that columns were put on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use namespace::{ChainId, InodeId, TargetId, read};

use crate::data::Data;
use crate::errors::FileError;

/// Looks at a file that changes meanwhile, and the pause between them.
const TRIES_MAX: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);
/// Objects of a target that may be passed over. With more of them, the target is not well.
const FAILED_MAX: usize = 1000;
/// Interval between two looks for chains that were left open.
const LOOK_EVERY: Duration = Duration::from_secs(60);

impl Data {
    /// Closes chains: they take no more columns, then each object of a column on them is made to know of its chain, and
    /// then they get their other members. A member that is filled gets the objects that know of it.
    ///
    /// # Errors
    /// The first of the calls to a target, when the others are done: its chains get no other members yet.
    pub(super) async fn close_chains(&self, chains: &BTreeSet<ChainId>) -> Result<(), FileError> {
        self.cluster.close_chains(chains).await?;
        // With the versions in which they are closed: a look at the objects before that would not count.
        let mut by_target = BTreeMap::<TargetId, BTreeMap<ChainId, u32>>::new();
        let (all, lost) = (self.cluster.chains(), self.cluster.data_servers.lost_targets());
        for chain in chains.iter().filter_map(|id| all.get(id)).filter(|chain| chain.is_closing()) {
            by_target.entry(chain.members[0].target).or_default().insert(chain.id, chain.version);
        }
        // They wait until their target is found again.
        by_target.retain(|target, _| !lost.contains(target));
        let mut first = Ok(());
        for (target, of_target) in by_target {
            match self.note_chains_on(target, &of_target).await {
                Ok(()) => self.cluster.chains_are_closed(&of_target).await?,
                Err(error) => first = first.and(Err(error)),
            }
        }
        let all = self.cluster.chains();
        let is_left = |id: &ChainId| {
            all.get(id)
                .is_some_and(|chain| chain.is_of_one_for_now() && !lost.contains(&chain.members[0].target))
        };
        if chains.iter().any(is_left) { first.and(Err(FileError::Delay)) } else { first }
    }

    /// Has all objects on a target note their chains, of those on these chains. Objects that cannot be opened on a target
    /// that is well are passed over: no member will have them.
    async fn note_chains_on(
        &self,
        target: TargetId,
        chains: &BTreeMap<ChainId, u32>,
    ) -> Result<(), FileError> {
        let (mut after, mut failed) = (None, Vec::new());
        loop {
            let page = self.list_objects(target, after).await?;
            let mut columns_of = BTreeMap::<(InodeId, u32), Vec<u32>>::new();
            for entry in page.objects.iter().filter(|entry| entry.volume == self.machine.volume) {
                // What is kept for snapshots stays where it is.
                let owner = read::owner(&*self.machine.view()?, InodeId(entry.inode))?;
                let Some(owner) = owner.filter(|owner| !owner.is_kept) else { continue };
                let file = (owner.file, entry.generation);
                columns_of.entry(file).or_default().push(entry.column);
            }
            for ((id, generation), columns) in columns_of {
                for column in columns {
                    match self.note_chain_of(id, generation, column, chains).await {
                        Ok(()) => {}
                        Err(FileError::Io) if failed.len() < FAILED_MAX => {
                            failed.push((id, generation, column))
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
            after = page.next();
            if after.is_none() {
                break;
            }
        }
        if failed.is_empty() {
            return Ok(());
        }
        let mut passed_over = 0_u64;
        for (id, generation, column) in failed {
            match self.note_chain_of(id, generation, column, chains).await {
                Ok(()) => {}
                Err(FileError::Io) => passed_over += 1,
                Err(error) => return Err(error),
            }
        }
        // Not if it is the target that fails.
        self.list_objects(target, None).await?;
        self.check_usable(target)?;
        if passed_over > 0 {
            tracing::error!(
                target = %format!("{:016x}", target.0), objects = passed_over,
                "objects cannot be opened: they get no copies, and do not move. The data server's log names them"
            );
        }
        Ok(())
    }

    /// Has an object note its chain, if its column is on one of these chains now.
    async fn note_chain_of(
        &self,
        file: InodeId,
        generation: u32,
        column: u32,
        chains: &BTreeMap<ChainId, u32>,
    ) -> Result<(), FileError> {
        let mut tries = 0;
        loop {
            // Not the error of an object.
            let found = self.machine.view().and_then(|view| Ok(read::inode(&*view, file)?));
            let inode = found.map_err(|_| FileError::Fault)?;
            let Some(inode) = inode.filter(|inode| inode.generation == generation) else { return Ok(()) };
            if inode.columns().is_none() {
                return Ok(());
            }
            let data = self.file_data(&inode).map_err(|_| FileError::Fault)?;
            if !data.layout.chain(&data.chains, column).is_some_and(|chain| chains.contains_key(&chain)) {
                return Ok(());
            }
            match self.stat_objects(&inode, &[column], false).await {
                // A later epoch was raised meanwhile, or the file is removed.
                Err(FileError::StaleEpoch | FileError::Stale) if tries < TRIES_MAX => {
                    tries += 1;
                    tokio::time::sleep(PAUSE).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// Closes chains that this process has put columns on.
    ///
    /// # Errors
    /// As [`Data::close_chains`]; a later call tries again.
    pub(super) async fn close_used_chains(&self) -> Result<(), FileError> {
        let used = self.used_chains.take();
        let closed = self.close_chains(&used).await;
        if closed.is_err() {
            self.used_chains.note(used);
        }
        closed
    }

    /// The leader closes chains that were left open: the metaserver that put columns on them has died. Never returns.
    pub(crate) async fn close_forgotten_chains(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if !self.machine.replica.leads() {
                continue;
            }
            let forgotten = self.cluster.forgotten_open_chains();
            if let Err(error) = self.close_chains(&forgotten).await {
                tracing::info!(
                    ?error,
                    "columns wait for copies: their chains cannot be closed yet, retrying"
                );
            }
        }
    }
}
