//! RENAME as in POSIX: the inode that had the new name is removed in the same command. The root of a volume can get
//! another name in its parent.

use super::{entry, remove};
use crate::plan::{Broken, Plan, Stop};
use crate::record::Name;
use crate::states::delegation;
use crate::{Error, Inode, InodeId, Reply, read};

/// Maximum of directories above the new place of a directory: twice as many as Linux can have in one path. A
/// rename reads each of them.
const ANCESTORS_MAX: usize = 4096;

pub(crate) fn rename(
    plan: &mut Plan<'_>,
    from_dir: InodeId,
    from: &[u8],
    to_dir: InodeId,
    to: &[u8],
) -> Result<Reply, Stop> {
    let mut source = plan.directory_to_change(from_dir)?;
    // One directory has one record: two copies of it would overwrite each other's changes.
    let mut target = if from_dir == to_dir { None } else { Some(plan.directory_to_change(to_dir)?) };
    if from_dir.volume() != to_dir.volume() {
        return Err(Error::OtherVolume.into());
    }
    let found = entry::find(plan, from_dir, from)?.ok_or(Error::NoEntry)?;
    let mut moved = plan.inode(found.inode)?;
    if moved.id.is_read_only() {
        return Err(Error::ReadOnly.into());
    }
    let over = entry::find(plan, to_dir, to)?;

    if over.is_some_and(|over| over.inode == moved.id) {
        // Two names of one file, or one name twice: no change (POSIX, rename()).
        let to = target.as_ref().unwrap_or(&source).unchanged();
        return Ok(Reply::Renamed { from: source.unchanged(), to, moved: moved.id, replaced: None });
    }
    let moves_directory = moved.directory().is_some();
    if moves_directory && is_within(plan, to_dir, moved.id)? {
        return Err(Error::Invalid.into());
    }
    let replaced = match over {
        None => None,
        Some(over) => Some((over, replaceable(plan, over, moves_directory)?)),
    };
    delegation::check(plan, moved.id)?;
    if let Some((over, _)) = &replaced {
        delegation::check(plan, over.inode)?;
    }

    entry::take(plan, &mut source, from, found)?;
    if moves_directory {
        source.links =
            source.links.checked_sub(1).ok_or(Broken("a directory has no link for a directory in it"))?;
    }
    let into = target.as_mut().unwrap_or(&mut source);
    match replaced {
        Some((over, _)) => entry::put(plan, to_dir, to, Name { cookie: over.cookie, inode: moved.id })?,
        None => entry::add(plan, into, to, moved.id)?,
    }
    if moves_directory && replaced.is_none() {
        into.links += 1; // otherwise the `..` of the replaced directory becomes the moved one's
    }
    let from_change = source.data_changed(plan.now());
    plan.put_inode(&source)?;
    let to_change = match &mut target {
        None => from_change,
        Some(target) => {
            let change = target.data_changed(plan.now());
            plan.put_inode(target)?;
            change
        }
    };
    if let Some(directory) = moved.directory_mut() {
        directory.parent = to_dir;
    }
    moved.attributes_changed(plan.now());
    plan.put_inode(&moved)?;
    let replaced = match replaced {
        None => None,
        Some((over, inode)) => {
            remove::unname(plan, inode)?;
            Some(over.inode)
        }
    };
    Ok(Reply::Renamed { from: from_change, to: to_change, moved: moved.id, replaced })
}

/// Returns the inode of the new name, if it may be replaced.
fn replaceable(plan: &Plan<'_>, over: Name, by_directory: bool) -> Result<Inode, Stop> {
    let inode = plan.inode(over.inode)?;
    if inode.id.is_read_only() {
        return Err(Error::ReadOnly.into());
    }
    match (by_directory, inode.directory()) {
        (true, None) => Err(Error::NotDirectory.into()),
        (false, Some(_)) => Err(Error::IsDirectory.into()),
        (true, Some(_)) if inode.id.is_root() => Err(Error::VolumeRoot.into()),
        (true, Some(directory)) if directory.entries > 0 => Err(Error::NotEmpty.into()),
        (true, Some(_)) | (false, None) => Ok(inode),
    }
}

/// Returns true if `dir` is `ancestor` or below it.
///
/// # Errors
/// `TooManyLinks` if `dir` is below more than [`ANCESTORS_MAX`] directories.
fn is_within(plan: &Plan<'_>, dir: InodeId, ancestor: InodeId) -> Result<bool, Stop> {
    let mut at = dir;
    for _ in 0..ANCESTORS_MAX {
        if at == ancestor {
            return Ok(true);
        }
        match read::inode(plan.view(), at)?
            .and_then(|inode| inode.directory().map(|directory| directory.parent))
        {
            Some(parent) if parent != at => at = parent,
            Some(_) | None => return Ok(false),
        }
    }
    Err(Error::TooManyLinks.into())
}
