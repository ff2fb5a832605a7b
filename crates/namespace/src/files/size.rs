//! Change of a file's size by SETATTR, or by an OPEN with truncation.

use super::{inline, space_used};
use crate::plan::{Plan, Stop};
use crate::snapshot::objects;
use crate::states::layout_state;
use crate::{ClientId, DataPlace, Error, File, Inode, deferred};

/// Checks that the size can be set now. Layouts of clients other than `layout_of` must have been returned:
/// such a client may write at any moment and get the answer that its data are durable, and then the
/// truncation would delete them (RFC 8881, section 12.5.5).
pub(crate) fn check(plan: &Plan<'_>, inode: &Inode, layout_of: Option<ClientId>) -> Result<(), Stop> {
    if inode.data() == Some(DataPlace::Migrating) || layout_state::held_by_others(plan, inode.id, layout_of)?
    {
        return Err(Error::Delay.into());
    }
    objects::check_own(plan, inode)
}

/// Sets the size; the caller puts the inode. Returns the deferred object operation, if any.
pub(crate) fn set(plan: &mut Plan<'_>, inode: &mut Inode, size: u64) -> Result<Option<u64>, Stop> {
    let deferred = match inode.file() {
        Some(File { data: DataPlace::Striped, layout }) => {
            inode.raise_epoch();
            Some(deferred::truncate(plan, inode, layout, size)?)
        }
        Some(File { data: DataPlace::Inline | DataPlace::Migrating, .. }) => {
            inline::truncate(plan, inode, size)?;
            None
        }
        None => None,
    };
    inode.resize(size);
    space_used::changed(plan, inode);
    Ok(deferred)
}
