//! Clones: volumes that begin as a snapshot, writable, whatever its size.
//!
//! ```text
//! MakeClone         ─▶ one volume, its root, and its origin: the snapshot
//! a read of k       ─▶ the clone's own record; else, unless the clone has removed k, what the snapshot shows  (view.rs)
//! a change of k     ─▶ an own record; a removal of what the snapshot shows: a mark in table 72
//! Promote           ─▶ own records for all the rest, copies of all objects; then it is a volume as others (promotion.rs)
//! ```
//!
//! **No operation knows of clones.** Reads go through [`crate::Snapshots`], and marks are made at the end of the command from the
//! changes that it planned: so none can forget one.
//!
//! **Ids.** The highest bit but one of a volume's id says that it was made as a clone: reads of other volumes cost
//! nothing more. Inodes have the numbers that they have in the snapshot; those from `first` on were made in the clone.
//!
//! **Objects** of an inherited file are the snapshot's until its data change: then the clone goes on with copies, as a
//! file that a snapshot shows does (`snapshot/objects.rs`).
//!
//! **Usage.** A clone is charged with all that it shows. What it has inherited is counted after it was made, in bounded
//! commands (`volume/quota.rs`).
//!
//! **Not inherited**: files without a name, stripe policies of directories other than the root, and volumes (a snapshot
//! that had some is not cloned).

pub(crate) mod promotion;
pub(crate) mod view;

use serde::{Deserialize, Serialize};
use store::StoreError;

use crate::files::create;
use crate::plan::{Broken, Plan, Stop};
use crate::record::get;
use crate::volume::{self, Counted, NUMBER_BITS, quota};
use crate::{
    Error, InodeId, RECORDS_OF_COMMAND_MAX, Reply, Snapshot, Snapshots, Volume, VolumeId, keys, pools, read,
};

/// Maximum of clones between a volume and one that is none: a read of a record that none of them has goes through all.
pub const CLONES_DEEP_MAX: u8 = 8;

/// Where a clone has its records from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The snapshot.
    pub snapshot: VolumeId,
    /// Number of the first inode that was made in the clone.
    pub first: u64,
    /// How many clones are between it and a volume that is none, itself included.
    pub depth: u8,
    /// What becomes of it.
    pub stage: Stage,
}

/// What becomes of a clone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// It shows what its snapshot shows.
    Inherits,
    /// The same, until it has a record of its own for each.
    Promotes,
    /// It was removed: its own records are left.
    Removed,
}

impl Origin {
    /// True if the inode may be one of the snapshot's.
    pub(crate) fn has(&self, inode: InodeId) -> bool {
        inode.0 & ((1 << NUMBER_BITS) - 1) < self.first
    }
}

/// Next id of a clone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CloneCounters {
    pub next: u32,
}

impl Default for CloneCounters {
    fn default() -> Self {
        Self { next: VolumeId::FIRST_CLONE.0 }
    }
}

/// Makes a clone of a snapshot, whose root is `name` in `dir`.
///
/// # Errors
/// `NoEntry` if there is no such snapshot, `HoldsVolumes` if volumes were in it, `Exists`, `TooManyVolumes`,
/// `ClonesTooDeep`; `Delay` while its volume is rolled back.
pub(crate) fn make(
    plan: &mut Plan<'_>,
    snapshot: VolumeId,
    dir: InodeId,
    name: &[u8],
) -> Result<Reply, Stop> {
    let Snapshot { id: snapshot, volume: of, volumes, .. } =
        read::snapshot(plan.view(), snapshot)?.ok_or(Error::NoEntry)?;
    if volumes > 0 {
        return Err(Error::HoldsVolumes.into());
    }
    if read::rolls_back(plan.view(), of)? {
        return Err(Error::Delay.into());
    }
    let depth = 1 + read::origin(plan.view(), of)?.map_or(0, |origin| origin.depth);
    if depth > CLONES_DEEP_MAX {
        return Err(Error::ClonesTooDeep.into());
    }
    let dir = volume::place(plan, dir, name)?;
    let mut counters: CloneCounters = get(plan.view(), &keys::clone_counters())?.unwrap_or_default();
    if counters.next >= VolumeId::FIRST_SNAPSHOT.0 {
        return Err(Error::TooManyVolumes.into());
    }
    let id = VolumeId(counters.next);
    counters.next += 1;
    plan.put(&keys::clone_counters(), &counters)?;
    let first = volume::find(plan, of)?.next_inode;
    plan.put(&keys::origin(id), &Origin { snapshot, first, depth, stage: Stage::Inherits })?;
    plan.mark(&keys::clone_of(snapshot, id));
    // Its root is charged with the command, as all that is put.
    let counted = Counted { bytes: InodeId(id.root().0 + 1), owners: None };
    volume::put(plan, &Volume { next_inode: first, counted, ..Volume::new(id, plan.now()) })?;
    quota::count_some(plan, id)?; // all of a small clone

    let stripe = read::inode(plan.view(), snapshot.root())?.and_then(|root| root.directory()?.stripe);
    let mut root =
        read::inode(&Snapshots(plan.view()), id.root())?.ok_or(Broken("a snapshot has no root"))?;
    root.attributes_changed(plan.now());
    if let Some(directory) = root.directory_mut() {
        directory.parent = dir.id;
        directory.stripe = match stripe {
            Some(policy) if pools::has_targets(plan.view(), policy.pool)? => Some(policy),
            Some(_) | None => None,
        };
        pools::policy_changes(plan, None, directory.stripe)?;
    }
    let (inode, dir) = create::put(plan, dir, name, root)?;
    Ok(Reply::Created { inode, existed: false, dir })
}

/// Marks what a command removes of what the origins of clones show.
pub(crate) fn hide(plan: &mut Plan<'_>) -> Result<(), StoreError> {
    for volume in plan.changed_volumes() {
        if !volume.is_clone() {
            continue;
        }
        let Some(origin) = view::inheriting(plan.view(), volume)? else { continue };
        for (key, change) in plan.changed(volume) {
            if change.is_none()
                && keys::inode_of(&key).is_some_and(|inode| origin.has(inode))
                && view::shown_by_origin(plan.base(), &origin, &key)?.is_some()
            {
                plan.mark(&keys::hidden(&key));
            }
        }
    }
    Ok(())
}

/// Notes that a clone is removed: it inherits nothing any more, and its snapshot may go.
pub(crate) fn removed(plan: &mut Plan<'_>, id: VolumeId) -> Result<(), StoreError> {
    if let Some(origin) = read::origin(plan.view(), id)? {
        plan.delete(&keys::clone_of(origin.snapshot, id));
        plan.delete(&keys::left_promotion(id));
        plan.put(&keys::origin(id), &Origin { stage: Stage::Removed, ..origin })?;
    }
    Ok(())
}

/// Removes marks of a clone that inherits nothing any more, up to the bound of the command. Returns true if that is all.
pub(crate) fn forget_marks(plan: &mut Plan<'_>, id: VolumeId) -> Result<bool, Stop> {
    let [first, last] = keys::SHOWN;
    let hidden = (first..=last).map(|tag| keys::hidden_of_volume(tag, id));
    for (from, to) in hidden.chain([keys::of_volume(keys::TO_COPY, id)]) {
        let some = read::some_keys(plan.view(), &from, &to, RECORDS_OF_COMMAND_MAX)?;
        let is_last = some.len() < RECORDS_OF_COMMAND_MAX;
        for key in some {
            if plan.is_full() {
                return Ok(false);
            }
            plan.delete(&key);
        }
        if !is_last {
            return Ok(false);
        }
    }
    plan.delete(&keys::origin(id));
    Ok(true)
}
