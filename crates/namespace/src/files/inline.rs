//! Inline data: data of small files in the store, with the inode, until they are too large or a client asks
//! for a layout. See [`DataPlace`].

use super::set_attributes::file_of;
use super::space_used;
use crate::plan::{Broken, Plan, Stop};
use crate::snapshot::objects;
use crate::states::delegation;
use crate::{
    DataPlace, Error, File, FileLayout, INLINE_BYTES_MAX, Inode, InodeId, Kind, Placed, Reply, keys, read,
};

/// Writes inline data. The bytes between the end of the data and `offset` become zeros.
pub(crate) fn write(plan: &mut Plan<'_>, inode: InodeId, offset: u64, data: &[u8]) -> Result<Reply, Stop> {
    let mut inode = plan.inode(inode)?;
    let file = file_of(&inode)?;
    let end = offset.checked_add(data.len() as u64).filter(|end| *end <= INLINE_BYTES_MAX);
    let end = end.ok_or(Error::TooLarge)?;
    if data.is_empty() {
        return Err(Error::Invalid.into());
    }
    if file.data != DataPlace::Inline {
        return Err(Error::Delay.into());
    }
    delegation::check(plan, inode.id)?;
    let key = keys::inline(inode.id);
    if offset == 0 && end >= inode.written {
        plan.put_data(&key, data);
    } else {
        let mut bytes = read::inline_data(plan.view(), inode.id)?.to_vec();
        bytes.resize(inode.written.max(end) as usize, 0);
        let range = bytes.get_mut(offset as usize..end as usize);
        range.ok_or(Broken("inline data end before a write into them"))?.copy_from_slice(data);
        plan.put_data(&key, &bytes);
    }
    inode.wrote(end);
    inode.data_changed(plan.now());
    plan.put_inode(&inode)?;
    Ok(Reply::Attributes { inode, deferred: None })
}

/// Intent of a migration: the file may have objects from now on. For a file without data whose objects were
/// made it is also the outcome. Writes of an earlier attempt are void from now on.
pub(crate) fn migrate(plan: &mut Plan<'_>, inode: InodeId, made: Option<Placed>) -> Result<Reply, Stop> {
    let mut inode = plan.inode(inode)?;
    let file = file_of(&inode)?;
    match file.data {
        DataPlace::Inline => {
            objects::name(plan, inode.id)?;
            let all_there = inode.written == 0 && made.is_some() && made == inode.placed();
            inode.move_data(if all_there { DataPlace::Striped } else { DataPlace::Migrating });
            if all_there {
                objects::made(plan, inode.id)?;
            }
        }
        DataPlace::Migrating => inode.raise_epoch(),
        DataPlace::Striped => return Ok(Reply::Attributes { inode, deferred: None }),
    }
    plan.put_inode(&inode)?;
    Ok(Reply::Attributes { inode, deferred: None })
}

/// Gives a file without data and objects the layout of another file, so that data can be shared.
pub(crate) fn place_as(plan: &mut Plan<'_>, inode: InodeId, layout: FileLayout) -> Result<Reply, Stop> {
    let mut inode = plan.inode(inode)?;
    let file = file_of(&inode)?;
    if layout.columns == 0 {
        return Err(Error::Invalid.into());
    }
    // A striped file may have objects, even without data.
    if file.data != DataPlace::Inline || inode.written > 0 {
        return Err(Error::Delay.into());
    }
    inode.kind = Kind::File(File { layout, ..file });
    // A MAKE may be on its way to an old target.
    inode.raise_epoch();
    plan.put_inode(&inode)?;
    Ok(Reply::Attributes { inode, deferred: None })
}

/// Outcome of a migration: every byte is in the objects, durably.
pub(crate) fn migrated(
    plan: &mut Plan<'_>,
    inode: InodeId,
    layout: FileLayout,
    epoch: u32,
) -> Result<Reply, Stop> {
    let mut inode = plan.inode(inode)?;
    let file = file_of(&inode)?;
    match file.data {
        DataPlace::Inline => return Err(Error::Invalid.into()),
        // An earlier leader copied the data to targets that the file no longer has, or a later attempt has
        // begun, whose writes would come after those of clients.
        DataPlace::Migrating if (file.layout, inode.epoch) != (layout, epoch) => {
            return Err(Error::Delay.into());
        }
        DataPlace::Migrating => {
            forget(plan, &inode);
            inode.move_data(DataPlace::Striped);
            objects::made(plan, inode.id)?;
            space_used::changed(plan, &mut inode);
            plan.put_inode(&inode)?;
        }
        DataPlace::Striped => {} // a repeated command
    }
    Ok(Reply::Attributes { inode, deferred: None })
}

/// Truncates inline data of `inode.written` bytes to the first `size`.
pub(super) fn truncate(plan: &mut Plan<'_>, inode: &Inode, size: u64) -> Result<(), Stop> {
    if size == 0 {
        forget(plan, inode);
        return Ok(());
    }
    if size < inode.written {
        let data = read::inline_data(plan.view(), inode.id)?;
        let kept = data.get(..size as usize).ok_or(Broken("inline data are shorter than their file"))?;
        plan.put_data(&keys::inline(inode.id), kept);
    }
    Ok(())
}

/// Deletes the inline data.
pub(super) fn forget(plan: &mut Plan<'_>, inode: &Inode) {
    if inode.written > 0 {
        plan.delete(&keys::inline(inode.id));
    }
}
