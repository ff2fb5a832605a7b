//! Objects of files that snapshots show: a file whose data are in objects leaves them to its snapshots before its data
//! change, and goes on with copies of them.
//!
//! ```text
//! snapshot 5       ─▶ the file shares its objects with it: nothing writes to them from now on
//! CopyObjects      ─▶ the intent: a number for the copies, and an epoch that ends what is late
//!    copies made by the data servers, durably; all that changes the data waits
//! CopiedObjects    ─▶ the outcome: the objects are kept for 5, the copies are the file's own
//! removal of 5     ─▶ the kept objects are removed, as those of a removed file
//! ```
//!
//! **Whose objects.** Objects are named by a number, at first that of their inode; copies have the next inode number of
//! the volume, which no inode gets. So data servers know nothing of snapshots. Objects are a file's own if they were made
//! after the newest snapshot.
//!
//! **Clones.** The objects of a file that a clone has inherited are shared in the same way, with the origin; nothing is kept
//! of them for snapshots of the clone, which find them there, too.
//!
//! **Files that are removed** leave their objects to the snapshots that show them.

use serde::{Deserialize, Serialize};
use store::StoreError;

use super::{History, history};
use crate::clones::promotion;
use crate::files::space_used;
use crate::plan::{Broken, Plan, Stop};
use crate::record::{decode, encode, restamp};
use crate::states::layout_state;
use crate::{
    DataPlace, Error, File, FileLayout, Inode, InodeId, RECORDS_OF_COMMAND_MAX, Reply, VolumeId, deferred,
    keys, read, volume,
};

/// Which objects are those of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Objects {
    /// Number in the names of the objects; [`INHERITED`]: they are those of a clone's origin.
    pub id: InodeId,
    /// How many snapshots the volume had had when they became the file's.
    pub version: u32,
    /// Copies that are being made.
    pub copy: Option<Copy>,
}

/// Copies of objects that are being made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Copy {
    /// Number in their names.
    pub id: InodeId,
    /// Version of the newest snapshot when they were begun. As long as one up to it shows the objects, nothing has changed
    /// their data since.
    pub newest: u32,
}

/// Objects that were a file's, and are kept for snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptObjects {
    pub id: InodeId,
    pub generation: u32,
    pub layout: FileLayout,
    /// Epochs of the file then, for calls and layouts.
    pub epochs: (u32, u32),
    /// Space that they take.
    pub bytes: u64,
}

/// Number of the objects that a clone's file shares with its origin. No inode has it.
pub(crate) const INHERITED: InodeId = InodeId(0);

impl Objects {
    /// True if they are those of a clone's origin.
    pub fn are_inherited(&self) -> bool {
        self.id == INHERITED
    }

    /// Number of the objects that are the file's own, or will be; none: those of a clone's origin.
    pub fn number(&self, inode: &Inode) -> Option<InodeId> {
        match (self.are_inherited(), inode.columns()) {
            (true, Some(_)) => None,
            (true, None) => Some(inode.id),
            (false, _) => Some(self.id),
        }
    }

    /// True if a snapshot shows them, too.
    pub fn are_shared(&self, history: &History) -> bool {
        self.are_inherited() || self.version < history.newest
    }
}

/// True if a snapshot shows the objects of a file.
fn is_shared(plan: &Plan<'_>, inode: &Inode) -> Result<bool, StoreError> {
    read::shares_objects(plan.view(), inode)
}

/// Checks that the data of a file may be changed.
///
/// # Errors
/// `Delay` while a snapshot shows its objects.
pub(crate) fn check_own(plan: &Plan<'_>, inode: &Inode) -> Result<(), Stop> {
    if is_shared(plan, inode)? { Err(Error::Delay.into()) } else { Ok(()) }
}

/// Checks that a layout of the file may be granted.
///
/// # Errors
/// `Delay` while its objects are being copied, and to write also while a snapshot shows them, or is about to be made.
pub(crate) fn check_layout(plan: &Plan<'_>, inode: &Inode, is_to_write: bool) -> Result<(), Stop> {
    let history = read::history(plan.view(), inode.id.volume())?;
    if history.rolls_back || is_to_write && plan.now() < history.quiet_until {
        return Err(Error::Delay.into());
    }
    if history.last == 0 && !inode.id.volume().is_clone() || inode.columns().is_none() {
        return Ok(());
    }
    let objects = read::own_objects(plan.view(), inode.id)?;
    if objects.are_shared(&history) && (is_to_write || objects.copy.is_some()) {
        return Err(Error::Delay.into());
    }
    Ok(())
}

/// Gives objects to a file that has none: those of a clone would otherwise count as its origin's.
pub(crate) fn name(plan: &mut Plan<'_>, inode: InodeId) -> Result<(), StoreError> {
    if read::own_objects(plan.view(), inode)?.are_inherited() {
        let History { last: version, .. } = read::history(plan.view(), inode.volume())?;
        plan.put(&keys::objects(inode), &Objects { id: inode, version, copy: None })?;
    }
    Ok(())
}

/// Notes that the objects of a file were made, and have its data from now on.
pub(crate) fn made(plan: &mut Plan<'_>, inode: InodeId) -> Result<(), StoreError> {
    name(plan, inode)?;
    let History { last: version, .. } = read::history(plan.view(), inode.volume())?;
    if version == 0 {
        return Ok(());
    }
    let id = read::own_objects(plan.view(), inode)?.id;
    plan.put(&keys::objects(inode), &Objects { id, version, copy: None })
}

/// Begins to copy the objects of a file that a snapshot shows.
///
/// # Errors
/// `Delay` while a client has a layout of the file, or its data servers are being told of a truncation or an epoch.
pub(crate) fn copy(plan: &mut Plan<'_>, inode: InodeId) -> Result<Reply, Stop> {
    let mut inode = plan.inode(inode)?;
    let layout = inode.columns().ok_or(Error::Invalid)?;
    if !is_shared(plan, &inode)? {
        return Ok(Reply::Attributes { inode, deferred: None });
    }
    if layout_state::held_by_others(plan, inode.id, None)? || read::pending_fence(plan.view(), inode.id)? {
        return Err(Error::Delay.into());
    }
    let mut objects = read::own_objects(plan.view(), inode.id)?;
    if let Some(copy) = objects.copy {
        remove_copies(plan, copy.id, &inode, layout)?; // of an attempt that came to nothing
    }
    let id = volume::new_inode(plan, inode.id.volume())?;
    plan.put(&keys::object_owner(id), &inode.id)?;
    objects.copy = Some(Copy { id, newest: read::history(plan.view(), inode.id.volume())?.newest });
    plan.put(&keys::objects(inode.id), &objects)?;
    inode.raise_epoch();
    plan.put_inode(&inode)?;
    Ok(Reply::Attributes { inode, deferred: None })
}

/// Takes the copies for the objects of the file.
///
/// # Errors
/// `Delay` if another attempt has begun.
pub(crate) fn copied(plan: &mut Plan<'_>, inode: InodeId, copy: InodeId, epoch: u32) -> Result<Reply, Stop> {
    let mut inode = plan.inode(inode)?;
    let layout = inode.columns().ok_or(Error::Invalid)?;
    let mut objects = read::own_objects(plan.view(), inode.id)?;
    if objects.id == copy && objects.copy.is_none() {
        return Ok(Reply::Attributes { inode, deferred: None }); // a repeated command
    }
    let begun = objects.copy.filter(|begun| begun.id == copy && inode.epoch == epoch).ok_or(Error::Delay)?;
    objects.copy = None;
    let history = read::history(plan.view(), inode.id.volume())?;
    let own = Objects { id: copy, version: history.last, copy: None };
    // One that is older than the copies, and still shows the objects.
    let since = read::version_before(plan.view(), inode.id.volume(), begun.newest.saturating_add(1))?;
    if objects.are_inherited() {
        objects = own;
        space_used::changed(plan, &mut inode);
        promotion::copied(plan, inode.id)?;
    } else if objects.version < since {
        keep(plan, &inode, layout, &objects)?;
        objects = own;
        space_used::changed(plan, &mut inode);
    } else {
        remove_copies(plan, copy, &inode, layout)?; // the data may have changed meanwhile
    }
    plan.put(&keys::objects(inode.id), &objects)?;
    plan.put_inode(&inode)?;
    Ok(Reply::Attributes { inode, deferred: None })
}

/// Takes the objects of a file that is deleted away, or leaves them to its snapshots.
pub(crate) fn discard(plan: &mut Plan<'_>, inode: &Inode) -> Result<(), Stop> {
    let Some(File { data, layout }) = inode.file() else { return Ok(()) };
    if data == DataPlace::Inline {
        return forget_number(plan, inode.id);
    }
    let objects = read::own_objects(plan.view(), inode.id)?;
    if let Some(copy) = objects.copy {
        remove_copies(plan, copy.id, inode, layout)?;
    }
    deferred::forget_pending(plan, inode)?;
    if objects.are_inherited() {
        // They are the origin's.
    } else if is_shared(plan, inode)? {
        keep(plan, inode, layout, &objects)?;
    } else {
        remove(plan, objects.id, inode.id, (inode.generation, layout))?;
    }
    plan.delete(&keys::objects(inode.id));
    Ok(())
}

/// Takes the objects of a file away that gets others.
pub(super) fn forget(plan: &mut Plan<'_>, inode: &Inode) -> Result<(), Stop> {
    let Some(File { data: DataPlace::Migrating | DataPlace::Striped, layout }) = inode.file() else {
        return forget_number(plan, inode.id);
    };
    let objects = read::own_objects(plan.view(), inode.id)?;
    let own = Some(objects.id).filter(|_| !objects.are_inherited());
    for id in [own, objects.copy.map(|copy| copy.id)].into_iter().flatten() {
        remove(plan, id, inode.id, (inode.generation, layout))?;
    }
    deferred::forget_pending(plan, inode)?;
    plan.delete(&keys::objects(inode.id));
    Ok(())
}

/// Takes the number of objects away that a small file would get.
fn forget_number(plan: &mut Plan<'_>, inode: InodeId) -> Result<(), Stop> {
    let objects = read::own_objects(plan.view(), inode)?;
    if objects.id != inode && !objects.are_inherited() {
        plan.delete(&keys::object_owner(objects.id));
        plan.delete(&keys::objects(inode));
    }
    Ok(())
}

/// Removes the kept objects of a value that no snapshot needs any more.
pub(super) fn drop_kept(
    plan: &mut Plan<'_>,
    history: &mut History,
    key: &[u8],
    value: &[u8],
) -> Result<(), Stop> {
    let kept: KeptObjects = decode(key, value)?;
    history.bytes =
        history.bytes.checked_sub(kept.bytes.into()).ok_or(Broken("kept bytes were not counted"))?;
    let owner = InodeId(keys::number(key, 1));
    remove(plan, kept.id, owner, (kept.generation, kept.layout))
}

/// Keeps the objects of a file for the newest snapshot.
fn keep(plan: &mut Plan<'_>, inode: &Inode, layout: FileLayout, objects: &Objects) -> Result<(), Stop> {
    let volume = inode.id.volume();
    let mut of_volume = read::history(plan.view(), volume)?;
    let kept = KeptObjects {
        id: objects.id,
        generation: inode.generation,
        layout,
        epochs: (inode.epoch, inode.layout_epoch),
        bytes: inode.used_bytes(),
    };
    let key = keys::objects(inode.id);
    let value = restamp((&key, &encode(&key, &kept)?), &key, objects.version)?;
    history::put(plan, volume, &mut of_volume, &key, value);
    of_volume.bytes += u128::from(kept.bytes);
    Ok(plan.put(&keys::history(volume), &of_volume)?)
}

fn remove_copies(plan: &mut Plan<'_>, copy: InodeId, inode: &Inode, layout: FileLayout) -> Result<(), Stop> {
    remove(plan, copy, inode.id, (inode.generation, layout))
}

/// Leaves a removal of objects of a file.
fn remove(
    plan: &mut Plan<'_>,
    id: InodeId,
    owner: InodeId,
    (generation, layout): (u32, FileLayout),
) -> Result<(), Stop> {
    if id != owner {
        plan.delete(&keys::object_owner(id));
    }
    Ok(deferred::remove_objects(plan, id, generation, layout)?)
}

/// True if nothing can write to the files of a volume unseen: no layout to write and no write delegation is granted, layouts
/// that were have been settled, and the data servers know the end of each that was revoked.
pub(super) fn is_quiet(plan: &Plan<'_>, volume: VolumeId) -> Result<bool, StoreError> {
    for tag in [keys::UNSETTLED, keys::FENCES, keys::WRITE_DELEGATIONS] {
        let (from, to) = keys::of_volume(tag, volume);
        if !read::some_keys(plan.view(), &from, &to, 1)?.is_empty() {
            return Ok(false);
        }
    }
    // Of a file that has grown since a truncation, the objects have bytes that it does not.
    let (from, to) = keys::of_volume(keys::TRUNCATIONS, volume);
    let truncated = read::some_keys(plan.view(), &from, &to, RECORDS_OF_COMMAND_MAX)?;
    for key in &truncated {
        if deferred::is_within(plan, InodeId(keys::number(key, 1)))? {
            return Ok(false);
        }
    }
    Ok(truncated.len() < RECORDS_OF_COMMAND_MAX)
}

/// Reads the kept objects of a value.
pub(crate) fn kept(key: &[u8], value: &[u8]) -> Result<KeptObjects, StoreError> {
    decode(key, value)
}
