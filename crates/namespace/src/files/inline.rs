//! Small files: their data are with the inode, in the store, until they are too many or somebody wants a
//! layout. See [`DataPlace`].

use super::set_attributes::file_of;
use crate::plan::{Broken, Plan, Stop};
use crate::states::delegation;
use crate::{DataPlace, Error, File, FileLayout, INLINE_BYTES_MAX, Inode, InodeId, Kind, Reply, keys, read};

/// Data of a small file. What lies between its end and `offset` becomes zeros.
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

/// The intent: there may be objects from here on. Without data, and with its objects made, it is the outcome
/// too.
pub(crate) fn migrate(plan: &mut Plan<'_>, inode: InodeId, made: Option<FileLayout>) -> Result<Reply, Stop> {
    let mut inode = plan.inode(inode)?;
    let file = file_of(&inode)?;
    if file.data == DataPlace::Inline {
        let all_there = inode.written == 0 && made == Some(file.layout);
        inode.move_data(if all_there { DataPlace::Striped } else { DataPlace::Migrating });
        plan.put_inode(&inode)?;
    }
    Ok(Reply::Attributes { inode, deferred: None })
}

/// A file without data or objects gets another place for them: where another file's are, so that data can be
/// shared.
pub(crate) fn place_as(plan: &mut Plan<'_>, inode: InodeId, layout: FileLayout) -> Result<Reply, Stop> {
    let mut inode = plan.inode(inode)?;
    let file = file_of(&inode)?;
    if layout.columns == 0 {
        return Err(Error::Invalid.into());
    }
    // Once it is striped there may be objects, also of a file without data.
    if file.data != DataPlace::Inline || inode.written > 0 {
        return Err(Error::Delay.into());
    }
    inode.kind = Kind::File(File { layout, ..file });
    plan.put_inode(&inode)?;
    Ok(Reply::Attributes { inode, deferred: None })
}

/// The outcome: every byte is in the objects, and on disk.
pub(crate) fn migrated(plan: &mut Plan<'_>, inode: InodeId, layout: FileLayout) -> Result<Reply, Stop> {
    let mut inode = plan.inode(inode)?;
    let file = file_of(&inode)?;
    match file.data {
        DataPlace::Inline => return Err(Error::Invalid.into()),
        // A leader of before copied them to where the file is no more.
        DataPlace::Migrating if file.layout != layout => return Err(Error::Delay.into()),
        DataPlace::Migrating => {
            forget(plan, &inode);
            inode.move_data(DataPlace::Striped);
            plan.put_inode(&inode)?;
        }
        DataPlace::Striped => {} // said before
    }
    Ok(Reply::Attributes { inode, deferred: None })
}

/// Of a file of `inode.written` bytes, all but the first `size` go.
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

/// The data go.
pub(super) fn forget(plan: &mut Plan<'_>, inode: &Inode) {
    if inode.written > 0 {
        plan.delete(&keys::inline(inode.id));
    }
}
