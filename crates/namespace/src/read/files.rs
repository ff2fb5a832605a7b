//! Reads of the name space: inodes, entries, extended attributes, and marks of files.

use std::ops::ControlFlow;

use bytes::Bytes;
use store::{StoreError, View};

use super::scan_records;
use crate::record::{CookieEntry, InodeHead, Name, Xattr, XattrHead, decode_data, decode_head, get};
use crate::{Entry, FileVersion, Inode, InodeId, Kind, StripePolicy, Unsettled, VolumeId, keys};

/// Maximum depth of directories: more than any path has, so that a cycle is found.
const DEPTH_MAX: usize = 1 << 20;

/// Inode with this id.
///
/// # Errors
/// [`StoreError`] when the store fails, as all reads here.
pub fn inode(view: &dyn View, inode: InodeId) -> Result<Option<Inode>, StoreError> {
    get(view, &keys::inode(inode))
}

/// Generation of the inode with this id.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn generation(view: &dyn View, inode: InodeId) -> Result<Option<u32>, StoreError> {
    let key = keys::inode(inode);
    let head = view.get(&key)?.map(|bytes| decode_head::<InodeHead>(&key, &bytes)).transpose()?;
    Ok(head.map(|head| head.generation))
}

/// Inline data of a file, without the hole at its end; empty if it has none.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn inline_data(view: &dyn View, inode: InodeId) -> Result<Bytes, StoreError> {
    let key = keys::inline(inode);
    view.get(&key)?.map_or(Ok(Bytes::new()), |bytes| decode_data(&key, bytes))
}

/// Inode of `name` in `dir`; none also if `dir` is not a directory.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn lookup(view: &dyn View, dir: InodeId, name: &[u8]) -> Result<Option<InodeId>, StoreError> {
    Ok(get::<Name>(view, &keys::name(dir, name))?.map(|name| name.inode))
}

/// Visits the entries of `dir` whose cookie is above `after_cookie`, in cookie order, until `visit` breaks.
/// Start with 0. Costs one range scan, whatever the size of the directory.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn list(
    view: &dyn View,
    dir: InodeId,
    after_cookie: u64,
    mut visit: impl FnMut(Entry) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let from = keys::cookie(dir, after_cookie.saturating_add(1));
    let to = keys::after(&keys::of(keys::COOKIES, &[dir.0]));
    if after_cookie == u64::MAX {
        return Ok(());
    }
    scan_records(view, &from, &to, |key, CookieEntry { name, inode }| {
        visit(Entry { cookie: keys::number(key, 9), name, inode })
    })
}

/// Visits names in the order of their directories, until `visit` breaks. Arguments of `visit`: a mark to go
/// on after the name, the directory, the name, and its inode. Begin with an empty mark. Those that a clone has inherited
/// need a view with snapshots ([`crate::Snapshots`]).
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn names_after(
    view: &dyn View,
    mark: &[u8],
    mut visit: impl FnMut(&[u8], InodeId, &[u8], InodeId) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    // The first key after the mark.
    let mut from = vec![keys::NAMES];
    from.extend_from_slice(mark);
    from.extend((!mark.is_empty()).then_some(0));
    let mut flow = ControlFlow::Continue(());
    for (first, end) in names_by_clones(view)? {
        let from = from.clone().max(first);
        if flow.is_break() || from >= end {
            continue;
        }
        scan_records(view, &from, &end, |key, Name { inode, .. }| {
            let (mark, name) = (key.get(1..).unwrap_or_default(), key.get(9..).unwrap_or_default());
            flow = visit(mark, InodeId(keys::number(key, 1)), name, inode);
            flow
        })?;
    }
    Ok(())
}

/// Ranges of names: of all volumes that were not made as clones, and of each that was.
fn names_by_clones(view: &dyn View) -> Result<Vec<(keys::Key, keys::Key)>, StoreError> {
    let (first, _) = keys::of_volume(keys::NAMES, VolumeId::FIRST_CLONE);
    let mut ranges = vec![(vec![keys::NAMES], first)];
    for volume in super::volumes(view)?.into_iter().filter(|volume| volume.id.is_clone()) {
        ranges.push(keys::of_volume(keys::NAMES, volume.id));
    }
    Ok(ranges)
}

/// First name of `inode` in `dir`: scans all names of `dir`.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn name_of(view: &dyn View, dir: InodeId, inode: InodeId) -> Result<Option<Vec<u8>>, StoreError> {
    let mut found = None;
    let prefix = keys::name(dir, &[]);
    scan_records(view, &prefix, &keys::after(&prefix), |key, name: Name| {
        if name.inode != inode {
            return ControlFlow::Continue(());
        }
        found = Some(key.get(prefix.len()..).unwrap_or_default().to_vec());
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// Value of an extended attribute.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn xattr(view: &dyn View, inode: InodeId, name: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
    Ok(get::<Xattr>(view, &keys::xattr(inode, name))?.map(|xattr| xattr.value))
}

/// Extended attributes of an inode: cookie, and name without `user.`, in the order of their creation.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn xattrs(view: &dyn View, inode: InodeId) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
    let mut found = Vec::new();
    xattr_heads(view, inode, |name, head| found.push((head.cookie, name.to_vec())))?;
    found.sort_unstable();
    Ok(found)
}

/// Visits name and head of each extended attribute of an inode, by name.
pub(crate) fn xattr_heads(
    view: &dyn View,
    inode: InodeId,
    mut visit: impl FnMut(&[u8], XattrHead),
) -> Result<(), StoreError> {
    let prefix = keys::xattrs(inode);
    let mut outcome = Ok(());
    view.scan(&prefix, &keys::after(&prefix), &mut |key, value| match decode_head(key, value) {
        Ok(head) => {
            visit(key.get(prefix.len()..).unwrap_or_default(), head);
            ControlFlow::Continue(())
        }
        Err(error) => {
            outcome = Err(error);
            ControlFlow::Break(())
        }
    })?;
    outcome
}

/// Mark of an unsettled file: its data servers may have newer attributes than its inode.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn unsettled(view: &dyn View, inode: InodeId) -> Result<Option<Unsettled>, StoreError> {
    get(view, &keys::unsettled(inode))
}

/// At most `max` unsettled files above `after` without layouts to write.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn to_settle(view: &dyn View, after: InodeId, max: usize) -> Result<Vec<InodeId>, StoreError> {
    listed(view, keys::TO_SETTLE, after, max)
}

/// At most `max` inodes above `after` in an index of inodes.
fn listed(view: &dyn View, index: u8, after: InodeId, max: usize) -> Result<Vec<InodeId>, StoreError> {
    let mut files = Vec::new();
    let from = keys::of(index, &[after.0.saturating_add(1)]);
    view.scan(&from, &keys::after(&[index]), &mut |key, _| {
        files.push(InodeId(keys::number(key, 1)));
        if files.len() < max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(files)
}

/// At most `max` files above `after` whose objects have not told the space that they take.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn space_untold(view: &dyn View, after: InodeId, max: usize) -> Result<Vec<InodeId>, StoreError> {
    listed(view, keys::SPACE_UNTOLD, after, max)
}

/// At most `max` files of a volume above `after` with layouts to write.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn written(
    view: &dyn View,
    volume: VolumeId,
    after: InodeId,
    max: usize,
) -> Result<Vec<InodeId>, StoreError> {
    let (first, end) = keys::of_volume(keys::UNSETTLED, volume);
    let from = keys::unsettled(InodeId(after.0.saturating_add(1))).max(first);
    let (mut files, mut outcome) = (Vec::new(), Ok(()));
    view.scan(&from, &end, &mut |key, _| {
        let file = InodeId(keys::number(key, 1));
        match view.get(&keys::to_settle(file)) {
            Ok(Some(_)) => {} // its last one was returned
            Ok(None) => files.push(file),
            Err(error) => outcome = Err(error),
        }
        let goes_on = outcome.is_ok() && files.len() < max;
        if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    outcome.map(|()| files)
}

/// True if a truncation of the file's objects is pending.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn pending_truncation(view: &dyn View, inode: InodeId) -> Result<bool, StoreError> {
    Ok(view.get(&keys::truncate(inode))?.is_some())
}

/// True if data servers of the file may not know its epoch: a fence or a truncation is pending.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn pending_fence(view: &dyn View, inode: InodeId) -> Result<bool, StoreError> {
    Ok(view.get(&keys::fence(inode))?.is_some() || pending_truncation(view, inode)?)
}

/// Version of a file's data.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn version(view: &dyn View, inode: &Inode) -> Result<FileVersion, StoreError> {
    let grant = unsettled(view, inode.id)?.map_or(0, |mark| mark.grant);
    Ok(FileVersion { epoch: inode.epoch, change: inode.change, grant, data: inode.data() })
}

/// Stripe policy for new files in `dir`: the policy of the nearest directory above that has one.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn stripe_policy(view: &dyn View, dir: InodeId) -> Result<Option<StripePolicy>, StoreError> {
    let mut at = dir;
    for _ in 0..DEPTH_MAX {
        let Some(Inode { kind: Kind::Directory(directory), .. }) = inode(view, at)? else { return Ok(None) };
        if directory.stripe.is_some() || directory.parent == at {
            return Ok(directory.stripe);
        }
        at = directory.parent;
    }
    Err(StoreError::failed("find a stripe policy", format!("{dir:?} is not below the root")))
}
