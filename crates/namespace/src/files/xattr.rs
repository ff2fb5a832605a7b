//! SETXATTR and REMOVEXATTR (RFC 8276): extended attributes of files and directories, as in Linux's `user.`.
//!
//! Extended attributes are few and short, and each has a record of its own beside the inode: GETATTR and
//! READDIR never read these records.

use std::ops::ControlFlow;

use store::StoreError;

use crate::plan::{Plan, Stop};
use crate::record::{Xattr, XattrHead, decode_head};
use crate::states::delegation;
use crate::{
    Error, Inode, InodeId, Reply, XATTR_NAME_BYTES_MAX, XATTR_VALUE_BYTES_MAX, XATTRS_BYTES_MAX, XATTRS_MAX,
    XattrExists, keys, read,
};

pub(crate) fn set(
    plan: &mut Plan<'_>,
    inode: InodeId,
    name: &[u8],
    value: &[u8],
    exists: XattrExists,
) -> Result<Reply, Stop> {
    let mut inode = holder(plan, inode)?;
    if name.is_empty() || name.len() > XATTR_NAME_BYTES_MAX {
        return Err(Error::Invalid.into());
    }
    if value.len() > XATTR_VALUE_BYTES_MAX {
        return Err(Error::XattrTooBig.into());
    }
    let known = find(plan, inode.id, name)?;
    match (exists, known) {
        (XattrExists::Create, Some(_)) => return Err(Error::Exists.into()),
        (XattrExists::Replace, None) => return Err(Error::NoXattr.into()),
        (XattrExists::Either | XattrExists::Create | XattrExists::Replace, _) => {}
    }
    let (mut others, mut bytes) = (0, (name.len() + value.len()) as u64);
    read::xattr_heads(plan.view(), inode.id, |other, head| {
        if other != name {
            others += 1;
            bytes += other.len() as u64 + head.value_bytes;
        }
    })?;
    if others >= XATTRS_MAX || bytes > XATTRS_BYTES_MAX {
        return Err(Error::NoXattrRoom.into());
    }
    delegation::check(plan, inode.id)?;
    let change = inode.attributes_changed(plan.now());
    let cookie = known.map_or(change.after, |known| known.cookie);
    plan.put(&keys::xattr(inode.id, name), &Xattr { cookie, value: value.to_vec() })?;
    plan.put_inode(&inode)?;
    Ok(Reply::Changed { change })
}

pub(crate) fn remove(plan: &mut Plan<'_>, inode: InodeId, name: &[u8]) -> Result<Reply, Stop> {
    let mut inode = holder(plan, inode)?;
    find(plan, inode.id, name)?.ok_or(Error::NoXattr)?;
    delegation::check(plan, inode.id)?;
    plan.delete(&keys::xattr(inode.id, name));
    let change = inode.attributes_changed(plan.now());
    plan.put_inode(&inode)?;
    Ok(Reply::Changed { change })
}

/// Deletes the extended attributes of a deleted inode.
pub(super) fn discard(plan: &mut Plan<'_>, inode: InodeId) -> Result<(), StoreError> {
    let mut keys = Vec::new();
    read::scan_keys(plan.view(), &keys::xattrs(inode), |key| {
        keys.push(key.to_vec());
        ControlFlow::Continue(())
    })?;
    keys.iter().for_each(|key| plan.delete(key));
    Ok(())
}

/// Returns an inode that can have extended attributes: not links, pipes or devices, because Linux's `user.`
/// is not possible there.
fn holder(plan: &Plan<'_>, inode: InodeId) -> Result<Inode, Stop> {
    let inode = plan.inode(inode)?;
    if inode.layout().is_some() || inode.directory().is_some() {
        Ok(inode)
    } else {
        Err(Error::WrongType.into())
    }
}

fn find(plan: &Plan<'_>, inode: InodeId, name: &[u8]) -> Result<Option<XattrHead>, StoreError> {
    let key = keys::xattr(inode, name);
    plan.view().get(&key)?.map(|bytes| decode_head(&key, &bytes)).transpose()
}
