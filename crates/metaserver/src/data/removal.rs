//! Removal of a data server, or of one target: it must have no objects of files, and no chain may depend on it. Empty columns are
//! relocated.
//!
//! ```text
//! drained ─▶ a chain without another member that has all data: the server stays
//!         ─▶ LIST ─▶ an object of no file: REMOVE
//!                 ─▶ an empty column: relocated, then REMOVE
//!                 ─▶ other objects stay, and so does the server
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use namespace::{ChainId, InodeId, Placed, TargetId, read};
use tokio::time::Instant;
use wire::data::ObjectEntry;
use wire::data::remove::Only;

use crate::data::Data;
use crate::data::orphans::Unneeded;
use crate::errors::FileError;

/// Time limit of one command for the removal of objects from a data server. The next command goes on where it
/// stopped.
const LEAVE_TIME_MAX: Duration = Duration::from_secs(60);

/// Objects that keep a data server or a target from being removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Remaining {
    /// Objects of files.
    of_files: u64,
    /// Objects of no file, which a restore keeps for a while.
    orphans: u64,
    /// Chains of which no other member has all data.
    chains: u64,
    /// True if there may be more objects, since the time was up.
    has_more: bool,
    /// Target that could not be asked.
    not_asked: Option<(TargetId, FileError)>,
}

impl fmt::Display for Remaining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { of_files, orphans, chains, has_more, not_asked } = self;
        if let Some((target, status)) = not_asked {
            return write!(
                f,
                "cannot be asked for its objects (target {:016x}: {status:?}); their files could not be read any more. Start \
                 it, or force it",
                target.0
            );
        }
        if *has_more {
            return write!(
                f,
                "has more empty objects than could be moved elsewhere in a minute. Try again, or force it"
            );
        }
        if *chains > 0 {
            return write!(
                f,
                "is the only one that has all data of {chains} chains of targets, which move to other data servers that have room. \
                 Try again, or force it"
            );
        }
        let mut and = "has";
        if *of_files > 0 {
            write!(
                f,
                "{and} {of_files} objects of files that are still open or written to, that no other data server takes, or that \
                 snapshots show"
            )?;
            and = ", and";
        }
        if *orphans > 0 {
            write!(
                f,
                "{and} {orphans} objects of no file, which are kept for an hour after a restore (heorot clean --after-restore \
                 removes them)"
            )?;
        }
        write!(f, ". Try again, or force it")
    }
}

impl Data {
    /// Moves the empty columns of files from targets that drain, and removes their objects and orphans there.
    ///
    /// # Errors
    /// The objects that remain on them.
    pub(super) async fn leave_targets(&self, targets: &BTreeSet<TargetId>) -> Result<(), Remaining> {
        let mut remaining = Remaining::default();
        let until = Instant::now() + LEAVE_TIME_MAX;
        remaining.chains = self.cluster.count_sole_members(targets);
        for target in targets.iter().copied() {
            // A removal does not wait for the objects of a lost target.
            if self.cluster.data_servers.is_lost(target) {
                continue;
            }
            if let Err(status) = self.leave_target(target, until, &mut remaining).await {
                remaining.not_asked.get_or_insert((target, status));
            }
        }
        if remaining == Remaining::default() { Ok(()) } else { Err(remaining) }
    }

    async fn leave_target(
        &self,
        target: TargetId,
        until: Instant,
        remaining: &mut Remaining,
    ) -> Result<(), FileError> {
        let mut after = None;
        loop {
            let page = self.list_objects(target, after).await?;
            let listed = self.by_owner(target, &page.objects)?;
            match self.held_back_by_restore() {
                Some(_) => remaining.orphans += (listed.orphans.len() + listed.left_behind.len()) as u64,
                None => drop(self.remove_unneeded(target, &listed).await?),
            }
            for (inode, of_file) in by_inode(&listed.owned) {
                if Instant::now() > until {
                    remaining.has_more = true;
                    return Ok(());
                }
                remaining.of_files += self.leave_objects(target, inode, of_file).await?;
            }
            after = page.next();
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Moves one file's empty columns. Returns the number of its objects that remain.
    async fn leave_objects(&self, target: TargetId, inode: InodeId, objects: u64) -> Result<u64, FileError> {
        let Some(owner) = read::owner(&*self.machine.view()?, inode)? else { return Ok(0) };
        if owner.is_kept {
            return Ok(objects); // for snapshots, until those are removed
        }
        let Some(inode) = read::inode(&*self.machine.view()?, owner.file)? else {
            return Ok(0);
        };
        let Some(layout) = inode.layout() else { return Ok(0) };
        let before = self.file_data_of(&inode, layout)?;
        // Of a column with copies another target takes the place of the member.
        let moved = match self.relocate_from(&inode, &|of| of == ChainId::from(target)).await {
            Ok(moved) => moved.and_then(|moved| moved.placed()).filter(|moved| moved.layout != layout),
            // A client keeps a layout, or a data server is unreachable: a later try may succeed.
            Err(_) => None,
        };
        let Some(Placed { layout: to, epoch }) = moved else { return Ok(objects) };
        let now = self.file_data_of(&inode, to)?;
        let chain = Some(ChainId::from(target));
        let is_left = |column: &u32| {
            before.layout.chain(&before.chains, *column) == chain
                && now.layout.chain(&now.chains, *column) != chain
        };
        let objects_id = now.id();
        let unneeded = |column| Unneeded {
            object: ObjectEntry {
                volume: self.machine.volume,
                inode: objects_id.0,
                generation: inode.generation,
                column,
            },
            epoch,
        };
        let left: Vec<_> = (0..layout.columns).filter(is_left).map(unneeded).collect();
        let removed = self.remove_orphans(target, &left, Only::LeftBehind).await?;
        Ok(objects.saturating_sub(removed))
    }
}

/// Number of listed objects of each file.
fn by_inode(objects: &[ObjectEntry]) -> BTreeMap<InodeId, u64> {
    let mut files = BTreeMap::new();
    for entry in objects {
        *files.entry(InodeId(entry.inode)).or_default() += 1;
    }
    files
}
