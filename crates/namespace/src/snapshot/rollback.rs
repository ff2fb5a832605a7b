//! Rollback: a volume is as its newest snapshot shows it. One command, and bounded work after it.
//!
//! ```text
//! RollBack          ─▶ mark in the history: nothing in the volume is read or changed by clients until it is done
//! RemoveLeftovers   ─▶ states end; what is kept for the snapshot is put back; what was made since is removed
//! ```
//!
//! A file whose objects were left to the snapshot gets them back, and shares them with the snapshot again: the copies are
//! removed. A small file that may have had objects since gets another number for those it will have, since their removal
//! may be yet to come.
//!
//! What is put back is a change as any other: change attributes and epochs do not go back, so clients look again, and what is
//! late is void.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::history;
use super::objects::{self, KeptObjects, Objects};
use crate::files::space_used;
use crate::keys::{self, Key};
use crate::plan::{Broken, Plan, Stop};
use crate::record::{decode, get, restamp, stamp_of};
use crate::states::leftovers;
use crate::volume::removal;
use crate::{
    DataPlace, Error, File, Inode, InodeId, Kind, RECORDS_OF_COMMAND_MAX, Reply, Snapshot, StripePolicy,
    VolumeId, pools, read, volume,
};

/// Live records that one command looks at: mostly few of them were made since.
const LOOKED_AT_MAX: usize = RECORDS_OF_COMMAND_MAX;
/// Values that one command puts back: each takes some twenty reads.
const PUT_BACK_MAX: usize = RECORDS_OF_COMMAND_MAX / 4;

/// Progress of a rollback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeftRollback {
    pub version: u32,
    /// Next key in the index of what is kept; none: all was put back.
    pub kept: Option<Key>,
    /// Next live record that may have been made since.
    pub live: Key,
}

/// Rolls a volume back to its newest snapshot.
///
/// # Errors
/// `NoEntry`; `NewerSnapshots` if it is not the newest; `HoldsVolumes` if volumes are in it, or were then; unless `force`,
/// `FilesOpen`.
pub(crate) fn roll_back(
    plan: &mut Plan<'_>,
    volume: VolumeId,
    name: &[u8],
    force: bool,
) -> Result<Reply, Stop> {
    let of_volume = read::volume(plan.view(), volume)?.ok_or(Error::Stale)?;
    let id: VolumeId = get(plan.view(), &keys::snapshot_name(volume, name))?.ok_or(Error::NoEntry)?;
    let snapshot: Snapshot =
        get(plan.view(), &keys::snapshot(id))?.ok_or(Broken("a name is of no snapshot"))?;
    let mut history = read::history(plan.view(), volume)?;
    if history.rolls_back {
        return Err(Error::Delay.into());
    }
    if history.newest != snapshot.version {
        return Err(Error::NewerSnapshots.into());
    }
    // What is kept for a newer one goes on to this one: until then, what was changed since is not known.
    if read::any_key(plan.view(), &keys::left_snapshots(volume))? {
        return Ok(Reply::RolledBack { begun: false });
    }
    if of_volume.volumes > 0 || snapshot.volumes > 0 {
        return Err(Error::HoldsVolumes.into());
    }
    if !force && leftovers::has_open_files(plan, volume)? {
        return Err(Error::FilesOpen.into());
    }
    // A client with a delegation may have opened the file without a word.
    let may_be_open = !force && !read::delegated(plan.view(), volume, 1)?.is_empty();
    if may_be_open || !objects::is_quiet(plan, volume)? {
        history.be_quiet(plan.now());
        plan.put(&keys::history(volume), &history)?;
        return Ok(Reply::RolledBack { begun: false });
    }
    history.rolls_back = true;
    plan.put(&keys::history(volume), &history)?;
    let live = keys::of_volume(keys::SHOWN[0], volume).0;
    let kept = Some(keys::kept_for(volume, snapshot.version, &[]));
    let left = LeftRollback { version: snapshot.version, kept, live };
    if !go_on(plan, volume, left)? {
        plan.leave_work();
    }
    Ok(Reply::RolledBack { begun: true })
}

/// Goes on with a rollback, up to the bound of the command. Returns true if that was all.
pub(crate) fn go_on(plan: &mut Plan<'_>, id: VolumeId, mut left: LeftRollback) -> Result<bool, Stop> {
    let mark = keys::left_rollback(id);
    // From the root on: inode 0 has the revoked delegations of all files.
    let states = |tag| (keys::of(tag, &[id.root().0]), keys::of_volume(tag, id).1);
    if !leftovers::end_states(plan, states)? {
        plan.put(&mark, &left)?;
        return Ok(false);
    }
    // A file without a name went with its last state: what it had is to be put back, too.
    history::keep(plan, true)?;
    if let Some(from) = left.kept.take() {
        let end = keys::after(&keys::kept_for(id, left.version, &[]));
        let some = read::some_keys(plan.view(), &from, &end, PUT_BACK_MAX)?;
        let is_last = some.len() < PUT_BACK_MAX;
        let mut next = some.last().map(|last| [last.as_slice(), &[0]].concat()).filter(|_| !is_last);
        for index in some {
            if plan.is_full() {
                next = Some(index);
                break;
            }
            put_back(plan, left.version, keys::kept_key(&index).to_vec())?;
        }
        if next.is_some() {
            left.kept = next;
            plan.put(&mark, &left)?;
            return Ok(false);
        }
    }
    if !remove_newer(plan, id, &mut left)? {
        plan.put(&mark, &left)?;
        return Ok(false);
    }
    plan.delete(&mark);
    let mut history = read::history(plan.view(), id)?;
    history.rolls_back = false;
    plan.put(&keys::history(id), &history)?;
    Ok(true)
}

/// Puts the value that a key had back.
fn put_back(plan: &mut Plan<'_>, version: u32, key: Key) -> Result<(), Stop> {
    if key.first() == Some(&keys::OBJECTS) {
        return Ok(()); // with their inode
    }
    let at = keys::kept_value(&key, version);
    let value = plan.view().get(&at)?.ok_or(Broken("a value is not kept for its snapshot"))?;
    let inode = InodeId(keys::number(&key, 1));
    match key.first().copied().unwrap_or_default() {
        keys::INODES => put_inode_back(plan, version, decode(&key, &value)?),
        // Of a file that was open and had no name.
        _ if read::inode(plan.view(), inode)?.is_none() => Ok(()),
        _ => {
            let value = restamp((&key, &value), &key, 0)?;
            if plan.view().get(&key)?.as_deref() != Some(&value) {
                plan.put_value(&key, value);
            }
            Ok(())
        }
    }
}

fn put_inode_back(plan: &mut Plan<'_>, version: u32, then: Inode) -> Result<(), Stop> {
    let now = read::inode(plan.view(), then.id)?;
    if then.links == 0 && then.id != InodeId::ROOT || now.as_ref() == Some(&then) {
        return Ok(());
    }
    let mut inode = then;
    if let Kind::File(File { data: data @ DataPlace::Migrating, .. }) = &mut inode.kind {
        *data = DataPlace::Inline;
    }
    let kept = take_objects(plan, inode.id, version)?;
    let epoch_now = now.as_ref().map(|now| now.epoch);
    if let Some(epoch) = epoch_now.or(kept.map(|(kept, _)| kept.epochs.0)) {
        inode.epoch = epoch;
    }
    if inode.layout().is_some() {
        inode.fence();
    }
    match inode.data() {
        Some(DataPlace::Striped) => {
            if let Some((kept, version)) = kept {
                if let Some(now) = &now {
                    objects::forget(plan, now)?;
                }
                let own = Objects { id: kept.id, version, copy: None };
                plan.put(&keys::objects(inode.id), &own)?;
                if kept.id != inode.id {
                    plan.put(&keys::object_owner(kept.id), &inode.id)?;
                }
            } else if let Some(now) = &now
                && inode.id.volume().is_clone()
                && read::own_objects(plan.view(), inode.id)?.version >= version
            {
                objects::forget(plan, now)?; // those of its origin are shown again
            }
        }
        // Its objects may be yet to be removed: others get another name.
        Some(DataPlace::Inline | DataPlace::Migrating)
            if now.as_ref().is_none_or(|now| now.data() != Some(DataPlace::Inline)) =>
        {
            if let Some(now) = &now {
                objects::forget(plan, now)?;
            }
            let id = volume::new_inode(plan, inode.id.volume())?;
            let last = read::history(plan.view(), inode.id.volume())?.last;
            plan.put(&keys::objects(inode.id), &Objects { id, version: last, copy: None })?;
            plan.put(&keys::object_owner(id), &inode.id)?;
        }
        Some(DataPlace::Inline | DataPlace::Migrating) | None => {}
    }
    let is_root = inode.id.is_root();
    if let Some(directory) = inode.directory_mut() {
        // The volume stays where it is now.
        if let Some(here) = now.as_ref().and_then(Inode::directory).filter(|_| is_root) {
            directory.parent = here.parent;
        }
        let before = now.as_ref().and_then(|now| now.directory()?.stripe);
        let pool = |policy: Option<StripePolicy>| policy.map(|policy| policy.pool);
        // Nothing may refuse a rollback that has begun.
        if let Some(named) = pool(directory.stripe).filter(|named| pool(before) != Some(*named))
            && !pools::has_targets(plan.view(), named)?
        {
            directory.stripe = None;
        }
        pools::policy_changes(plan, before, directory.stripe)?;
    }
    inode.change = inode.change.max(now.as_ref().map_or(0, |now| now.change)) + 1;
    inode.changed = plan.now();
    space_used::discard(plan, inode.id);
    inode.space_is_told = true;
    space_used::changed(plan, &mut inode);
    Ok(plan.put_inode(&inode)?)
}

/// Takes the objects that are kept of a file for the snapshot, and the version from which on they were its own.
fn take_objects(
    plan: &mut Plan<'_>,
    inode: InodeId,
    version: u32,
) -> Result<Option<(KeptObjects, u32)>, Stop> {
    let key = keys::objects(inode);
    let at = keys::kept_value(&key, version);
    let Some(value) = plan.view().get(&at)? else { return Ok(None) };
    let kept = objects::kept(&key, &value)?;
    plan.delete(&at);
    plan.delete(&keys::kept_for(inode.volume(), version, &key));
    let mut history = read::history(plan.view(), inode.volume())?;
    history.kept = history.kept.checked_sub(1).ok_or(Broken("a value goes that was not counted"))?;
    history.bytes =
        history.bytes.checked_sub(kept.bytes.into()).ok_or(Broken("kept bytes were not counted"))?;
    plan.put(&keys::history(inode.volume()), &history)?;
    Ok(Some((kept, stamp_of(&value))))
}

/// Removes live records that were made since, up to the bound of the command. Returns true if that was all.
fn remove_newer(plan: &mut Plan<'_>, id: VolumeId, left: &mut LeftRollback) -> Result<bool, Stop> {
    let [first, last] = keys::SHOWN;
    let begun = left.live.first().copied().unwrap_or(first);
    for tag in begun..=last {
        let (from, end) = keys::of_volume(tag, id);
        let from = if tag == begun { left.live.clone() } else { from };
        let (newer, next) = newer_from(plan, left.version, &from, &end)?;
        for key in newer {
            if plan.is_full() || !removal::remove_record(plan, tag, &key)? {
                left.live = key;
                return Ok(false);
            }
        }
        if let Some(next) = next {
            left.live = next;
            return Ok(false);
        }
    }
    Ok(true)
}

/// Keys from `from` on that were made since the snapshot, and the key at which to go on, if there is one.
fn newer_from(
    plan: &Plan<'_>,
    version: u32,
    from: &[u8],
    end: &[u8],
) -> Result<(Vec<Key>, Option<Key>), Stop> {
    let (mut newer, mut looked_at, mut next) = (Vec::new(), 0, None);
    plan.view().scan(from, end, &mut |key, value| {
        if looked_at == LOOKED_AT_MAX {
            next = Some(key.to_vec());
            return ControlFlow::Break(());
        }
        looked_at += 1;
        // What was put back in this command has no stamp yet.
        if stamp_of(value) >= version {
            newer.push(key.to_vec());
        }
        ControlFlow::Continue(())
    })?;
    let mut made = Vec::new();
    for key in newer {
        if plan.view().get(&keys::kept_value(&key, version))?.is_none() {
            made.push(key);
        }
    }
    Ok((made, next))
}
