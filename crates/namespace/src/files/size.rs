//! Setting a file's size: by SETATTR, or by an OPEN that truncates it.

use super::inline;
use crate::plan::{Plan, Stop};
use crate::states::layout_state;
use crate::{ClientId, DataPlace, Error, File, Inode, deferred};

/// Whether the size can be set now. A layout of a client other than `layout_of` must have come back first:
/// its holder may write through it at any moment, is told that the data are on disk, and then the truncation
/// would take them (RFC 8881, section 12.5.5).
pub(crate) fn check(plan: &Plan<'_>, inode: &Inode, layout_of: Option<ClientId>) -> Result<(), Stop> {
    if inode.data() == Some(DataPlace::Migrating) || layout_state::held_by_others(plan, inode.id, layout_of)?
    {
        return Err(Error::Delay.into());
    }
    Ok(())
}

/// Sets the size; the caller puts the inode. Returns the deferred operation on objects that this leaves.
pub(crate) fn set(plan: &mut Plan<'_>, inode: &mut Inode, size: u64) -> Result<Option<u64>, Stop> {
    let deferred = match inode.file() {
        Some(File { data: DataPlace::Striped, layout }) => {
            Some(deferred::truncate(plan, inode, layout, size)?)
        }
        Some(File { data: DataPlace::Inline | DataPlace::Migrating, .. }) => {
            inline::truncate(plan, inode, size)?;
            None
        }
        None => None,
    };
    inode.resize(size);
    Ok(deferred)
}
