//! Directory entries: each is stored twice, by name for LOOKUP and by cookie for READDIR.

use store::StoreError;

use crate::plan::{Broken, Plan, Stop};
use crate::record::{CookieEntry, Name, get};
use crate::{Inode, InodeId, keys, volume};

/// Bytes that an entry adds to its directory's size.
const ENTRY_BYTES: u64 = 64;

/// Returns the entry `name` of `dir`.
pub(crate) fn find(plan: &Plan<'_>, dir: InodeId, name: &[u8]) -> Result<Option<Name>, StoreError> {
    get(plan.view(), &keys::name(dir, name))
}

/// Adds an entry under the directory's next cookie. The caller puts the directory.
///
/// # Errors
/// `Stale` if the directory's volume was removed.
pub(crate) fn add(plan: &mut Plan<'_>, dir: &mut Inode, name: &[u8], inode: InodeId) -> Result<(), Stop> {
    let id = dir.id;
    volume::check_lives(plan, id)?;
    let directory = dir.directory_mut().ok_or(Broken("an entry is added to a file"))?;
    let cookie = directory.next_cookie;
    directory.next_cookie += 1;
    directory.entries += 1;
    dir.size = directory.entries * ENTRY_BYTES;
    Ok(put(plan, id, name, Name { cookie, inode })?)
}

/// Replaces the inode of an entry. The entry keeps its cookie, so a listing in progress sees the name once.
pub(crate) fn put(plan: &mut Plan<'_>, dir: InodeId, name: &[u8], entry: Name) -> Result<(), StoreError> {
    plan.put(&keys::name(dir, name), &entry)?;
    let by_cookie = CookieEntry { name: name.to_vec(), inode: entry.inode };
    plan.put(&keys::cookie(dir, entry.cookie), &by_cookie)
}

/// Removes an entry. The caller puts the directory.
pub(crate) fn take(plan: &mut Plan<'_>, dir: &mut Inode, name: &[u8], entry: Name) -> Result<(), Stop> {
    plan.delete(&keys::name(dir.id, name));
    plan.delete(&keys::cookie(dir.id, entry.cookie));
    let directory = dir.directory_mut().ok_or(Broken("an entry is taken from a file"))?;
    directory.entries = directory.entries.checked_sub(1).ok_or(Broken("an empty directory has an entry"))?;
    dir.size = directory.entries * ENTRY_BYTES;
    Ok(())
}
